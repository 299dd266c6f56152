import pytest
import torch
from torch.testing import assert_close

from fullgraph import explain
from fullgraph.rewrites.with_loss import WithLoss

pytestmark = pytest.mark.compiles


def expensive(logits, target):
    """A loss of many small operations, as detection losses are."""
    loss = torch.nn.functional.cross_entropy(logits, target)
    for weight in (0.1, 0.2, 0.3):
        loss = loss + weight * (logits.softmax(-1) ** 2).sum(-1).log().mean()
    return loss


def make():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    return model, torch.randn(5, 8), torch.randint(0, 4, (5,))


def test_model_and_loss_are_one_graph_forward_and_backward():
    model, x, target = make()
    told = explain(WithLoss(model, expensive), (x, target), loss=lambda y: y, backend="aot_eager")
    assert told.default.ok and told.fullgraph.ok
    assert told.default.graphs == 1


def test_it_trains_as_the_two_alone_and_gives_the_model_back():
    model, x, target = make()
    other, _, _ = make()
    expensive(other(x), target).backward()
    step = torch.compile(WithLoss(model, expensive), backend="aot_eager")
    step(x, target).backward()
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert_close(ours.grad, theirs.grad)
    assert step.model is model
    assert_close(torch.compile(step.model, backend="aot_eager")(x), other(x))


def test_a_loss_is_compiled_by_itself():
    model, x, target = make()
    logits = model(x).detach().requires_grad_()
    told = explain(expensive, (logits, target), loss=lambda y: y, backend="aot_eager")
    assert told.default.ok and told.fullgraph.ok
    compiled = torch.compile(expensive, fullgraph=True, backend="aot_eager")
    assert_close(compiled(logits, target), expensive(logits, target))


def test_a_loss_with_several_targets_and_parameters():
    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def forward(self, output, target, weight):
            return self.scale * ((output - target) ** 2 * weight).mean()

    step = WithLoss(torch.nn.Linear(3, 2), Loss(), targets=2)
    step(torch.ones(4, 3), torch.zeros(4, 2), torch.ones(4, 1)).backward()
    assert step.loss.scale.grad is not None
    assert "loss.scale" in step.state_dict() and "model.weight" in step.state_dict()
