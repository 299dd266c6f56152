import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from fullgraph import explain
from fullgraph.diagnose.eager_operators import count_around

A, B, C, D = (("net.py", number) for number in range(4))


@pytest.mark.parametrize(
    ("lines", "graphs", "counts"),
    [
        ([A, B, C], [], (3,)),
        ([A, B, C], [{A}, {C}], (0, 1, 0)),
        ([B, A, C, B], [{A}, {C}], (1, 0, 1)),
        ([A, B, A, B, C], [{A}, {C}], (0, 2, 0)),  # a loop around a graph
        ([A, C, B, A, D], [{A}, {C}], (0, 0, 2)),  # back at the first graph, and on
    ],
)
def test_what_is_in_no_graph_lies_behind_the_graph_before_it(lines, graphs, counts):
    assert count_around(lines, graphs) == counts


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        return y + 0

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def inner(x):
    h = torch.sin(x)
    return h.cos()


@torch.compiler.disable
def apart(x):
    x = x.exp()
    x = nn.functional.gelu(x)
    x[0] = 0
    return torch.relu(x) @ x


def one_part_in_eager(x):
    x = Doubled.apply(x).sin()
    x = checkpoint(inner, x, use_reentrant=False)
    x = apart(x)
    return nn.functional.layer_norm(x, x.shape[-1:])


def left_to_eager(x):
    for limit in range(3):
        if x.sum() > limit:
            x = x + 1
    return x


def without_break(x):
    return inner(x)


def raising_later(x):
    print(x)
    return x.reshape(7)


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("program", "counts"),
    [
        (one_part_in_eager, (0, 5, 0)),
        (left_to_eager, (9,)),
        (without_break, ()),
        (raising_later, ()),
    ],
)
def test_operators_that_no_graph_holds_are_counted(program, counts):
    assert explain(program, torch.ones(4, 4)).eager_ops == counts


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return apart(x).sin() * self.calls


@pytest.mark.compiles
def test_only_the_first_compiled_call_is_counted_and_nothing_is_left_of_it():
    model, x = Counting(), torch.ones(4, 4)
    found = explain(model, x, calls=[torch.ones(2, 2)])
    assert found.eager_ops[0] == 5
    assert model.calls == 0
    assert "5 in eager" in found.text()
    assert "░░░░" in found.text()
    assert "5 ops in eager" in found.to_html()
