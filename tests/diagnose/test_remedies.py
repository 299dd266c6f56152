"""What the remedies of the everyday programs say is whole under `fullgraph=True`, and equal."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops import while_loop

from tests.diagnose import everyday as e

pytestmark = pytest.mark.compiles

X = torch.linspace(-1, 2, 12).reshape(4, 3)


class ReadOnce(e.Cached):
    def __init__(self):
        super().__init__()
        _ = self.scale


class HookOnTensor(e.Layer):
    def forward(self, x):
        y = self.lin(x)
        y.register_hook(lambda grad: grad * 2)
        return y * 2


class HookOnParameter(e.TensorHook):
    def __init__(self):
        super().__init__()
        self.lin.weight.register_hook(self.save)

    def forward(self, x):
        return self.lin(x) * 2


class HookOnce(e.Layer):
    def __init__(self):
        super().__init__()
        self.lin.register_forward_hook(lambda module, args, out: out * 2)

    def forward(self, x):
        return self.lin(x)


class PlainInt(nn.Module):
    def __init__(self):
        super().__init__()
        self.k = 2

    def forward(self, x):
        return torch.topk(x, self.k)[0]


class LayerOnce(e.Layer):
    def forward(self, x):
        return self.lin(x)


class CopyOnce(e.Layer):
    def __init__(self):
        super().__init__()
        self.copy = copy.deepcopy(self.lin)

    def forward(self, x):
        return self.copy(x)


def python_numbers(x):
    return x + 1 if max([1.0, 2.0]) > 1.5 else x


def torch_condition(x):
    return torch.where(x.max() > 0.5, x + 1, x)


def element_count(x):
    return x + x.numel() * x.element_size()


def masked_exit(x):
    done = torch.zeros((), dtype=torch.bool)
    for _ in range(5):
        x = torch.where(done, x, x * 2)
        done = done | (x.sum() > 10)
    return x


def loop_operator(x):
    (x,) = while_loop(lambda x: ~(x.sum() > 100), lambda x: (x * 2,), (x,))
    return x


def branch_in_place_of_raise(x):
    return torch.where(torch.isnan(x).any(), x * 0, x + 1)


def asserted(x):
    torch._assert_async(~(torch.isnan(x).any()), "nan")
    return x + 1


def both_results(x):
    return torch.where(x.sum() > 0, x, x * 2)


def membership(x):
    k = x.argmax()
    return torch.where(torch.isin(k, torch.tensor([1, 2, 3])), x + 1, x)


def reduction(x):
    return torch.where((x[0] > 0).any(), x + 1, x)


def container_as_tensor(x):
    return x * torch.tensor(list(e.names.values())).take(x.argmax() % 4)


def masked_slice(x):
    n = (x > 0).sum()
    return torch.where(torch.arange(x.numel()) < n, x.flatten(), 0).sum()


def masked_loop(x):
    return torch.where(x > 0, 0, x)


def counted_classes(x):
    return F.one_hot(x.long().clamp(0, 2), 3)


def jacrev(x):
    return torch.func.jacrev(lambda v: v**2)(x[0])


def indexed_without_list(x):
    return x * x[0][0]


def named_fields(x):
    return e.Pair(x + 1).a


def copied_container(x):
    state = {"x": x}
    return dict(state)["x"].clone() + 1


def new_tensor(x):
    y = x.clone()
    y = y * 2
    return y


def bool_mask(x):
    return x[(x > 0).to(torch.uint8).bool()].sum()


def asked_before(x):
    return x[10] if x.shape[0] > 10 else x[0]


def permuted(x):
    return x[torch.randperm(4)]


def drawn(x):
    return x + torch.rand(())


PAIRS: list[tuple[object, object]] = [
    (e.Cached, ReadOnce),
    (e.OldModuleHook, HookOnTensor),
    (e.TensorHook, HookOnParameter),
    (e.ForwardHook, HookOnce),
    (e.TopK, PlainInt),
    (e.NewLayer, LayerOnce),
    (e.CopiedModule, CopyOnce),
    (e.numpy_condition, python_numbers),
    (e.numpy_input_condition, torch_condition),
    (e.storage_size, element_count),
    (e.loop_exit, masked_exit),
    (e.endless_loop, loop_operator),
    (e.handled_raise, branch_in_place_of_raise),
    (e.plain_raise, asserted),
    (e.early_return, both_results),
    (e.member, membership),
    (e.any_of_rows, reduction),
    (e.indexed_dict, container_as_tensor),
    (e.sliced, masked_slice),
    (e.looped_nonzero, masked_loop),
    (e.classes, counted_classes),
    (e.functional_jacobian, jacrev),
    (e.listed, indexed_without_list),
    (e.as_dict, named_fields),
    (e.copied_dict, copied_container),
    (e.new_data, new_tensor),
    (e.byte_mask, bool_mask),
    (e.handled_index, asked_before),
    (e.shuffled, permuted),
    (e.draw, drawn),
]
OTHER_STREAM = (permuted, drawn)


def built(program: object) -> Callable[[torch.Tensor], torch.Tensor]:
    torch.manual_seed(0)
    return program() if isinstance(program, type) else program


@pytest.mark.parametrize(
    ("before", "after"), PAIRS, ids=lambda program: getattr(program, "__name__", "")
)
def test_a_remedy_is_whole_and_equal(before: object, after: object) -> None:
    torch._dynamo.reset()
    result = torch.compile(built(after), backend="eager", fullgraph=True)(X.clone())
    if after not in OTHER_STREAM:
        torch.testing.assert_close(result, built(before)(X.clone()))


def test_hooks_that_are_moved_run_in_the_backward() -> None:
    torch._dynamo.reset()
    for program in (HookOnTensor, HookOnParameter):
        module = built(program)
        torch.compile(module, backend="aot_eager", fullgraph=True)(X).sum().backward()
        plain = built(LayerOnce)
        (plain(X) * (4 if program is HookOnTensor else 2)).sum().backward()
        torch.testing.assert_close(module.lin.weight.grad, plain.lin.weight.grad)
    assert len(module.seen) == 1
