"""A snapshot puts back what it reached, and says what it cannot."""

import functools
import gc
import random
from collections import OrderedDict, defaultdict, deque

import numpy as np
import pytest
import torch
from torch import nn

from fullgraph.compiler.isolation import devices_of, snapshot, state_digest


@pytest.fixture(autouse=True)
def _no_garbage() -> None:
    """Dynamo drops globals of compiled code when the code is collected: not in mid-test."""
    gc.collect()


class Plain:
    shared: list[int] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.value = 1


class Slotted:
    __slots__ = ("here", "missing")

    def __init__(self) -> None:
        self.here = [1]


def put_back(objects, change):
    """Whether `change` changed `objects`, and a snapshot undid it without a complaint."""
    before, saved = state_digest(objects), snapshot(objects)
    change()
    assert state_digest(objects) != before
    assert saved.restore() == ()
    assert state_digest(objects) == before


CONTAINERS = {
    "list": ([1, [2]], lambda c: (c.pop(), c.append(5))),
    "inner list": ([1, [2]], lambda c: c[1].clear()),
    "dict": ({"a": 1}, lambda c: c.update(a=2, b=3)),
    "order of a dict": (OrderedDict(a=1, b=2), lambda c: c.move_to_end("a")),
    "defaultdict": (defaultdict(list), lambda c: c["new"].append(1)),
    "set": ({1}, lambda c: c.add(2)),
    "deque": (deque([1], maxlen=3), lambda c: c.extend([2, 3, 4])),
    "in a tuple": (([1],), lambda c: c[0].append(2)),
    "array": (np.zeros(3), lambda c: c.fill(1)),
    "bytearray": (bytearray(b"ab"), lambda c: c.extend(b"c")),
    "object": (Plain(), lambda c: setattr(c, "late", 1)),
    "class attribute": (Plain(), lambda c: type(c).shared.append(1)),
    "class binding": (Plain(), lambda c: setattr(type(c), "shared", None)),
    "slots": (Slotted(), lambda c: (c.here.append(2), setattr(c, "missing", 1))),
    "torch.Generator": (torch.Generator(), lambda c: torch.rand(1, generator=c)),
    "numpy Generator": (np.random.default_rng(0), lambda c: c.random()),
    "random.Random": (random.Random(0), lambda c: c.random()),
}


@pytest.mark.compiles
@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_and_objects(name):
    thing, change = CONTAINERS[name]
    put_back([thing], lambda: change(thing))


TENSORS = {
    "values": lambda t: t.add_(1),
    "values past the version": lambda t: t.data.add_(1),
    "size": lambda t: t.resize_(100),
    "storage": lambda t: setattr(t, "data", torch.ones(2)),
    "dtype": lambda t: setattr(t, "data", torch.ones(2, dtype=torch.half)),
    "storage's size": lambda t: t.untyped_storage().resize_(0),
    "strides": lambda t: t.t_(),
    "requires_grad": lambda t: t.requires_grad_(),
    "grad": lambda t: setattr(t, "grad", torch.ones(2, 3)),
    "attribute": lambda t: setattr(t, "note", 1),
    "history": lambda t: t.add_(torch.ones(3, requires_grad=True)),
}


@pytest.mark.compiles
@pytest.mark.parametrize("name", TENSORS)
def test_tensors(name):
    tensor = torch.zeros(2, 3)
    view = tensor[0]
    put_back([tensor], lambda: TENSORS[name](tensor))
    tensor.data[0, 0] = 7
    assert view.data[0] == 7


def test_a_saved_tensor_does_not_look_changed_to_autograd():
    weight, x = torch.ones(3, requires_grad=True), torch.ones(3)
    product = (weight * x).sum()
    saved = snapshot([x])
    x.add_(1)
    saved.restore()
    product.backward()
    assert weight.grad.tolist() == [1, 1, 1]


def test_gradients_keep_their_identity_and_none_stays_none():
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    first(torch.ones(2)).sum().backward()
    kept = first.weight.grad
    put_back([first, second], lambda: second(first(torch.ones(2))).sum().backward())
    assert first.weight.grad is kept
    assert second.weight.grad is None


def test_sparse_tensors():
    tensor = torch.eye(3).to_sparse()
    put_back([tensor], lambda: tensor._values().mul_(2))


def test_inference_tensors():
    with torch.inference_mode():
        tensor = torch.zeros(3)

    def change():
        with torch.inference_mode():
            tensor.add_(1)

    put_back([tensor], change)


def test_a_lazy_module_is_lazy_again():
    layer = nn.LazyLinear(3)
    put_back([layer], lambda: layer(torch.ones(2, 4)))
    assert isinstance(layer, nn.LazyLinear)
    assert layer(torch.ones(2, 5)).shape == (2, 3)


def test_modules_hooks_and_modes():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))

    def change():
        model.eval()
        model.append(nn.ReLU())
        model[0].register_forward_hook(lambda *_: None)
        model[0].weight.register_hook(lambda grad: grad)
        del model[0].bias
        model[1].reset_running_stats()
        model[1].running_mean += 1

    put_back([model], change)
    assert len(model) == 2


TOTAL = 0
HISTORY: list[int] = []


def test_what_a_function_reaches():
    local = [1]
    count = 0

    def function(x, seen=[]):  # noqa: B006
        nonlocal count
        global TOTAL
        count += 1
        TOTAL += 1
        HISTORY.append(1)
        local.append(1)
        seen.append(x)

    put_back([functools.partial(function, 1)], lambda: function(0))
    assert (count, TOTAL, HISTORY, local) == (0, 0, [], [1])


def test_the_process():
    def change():
        random.random()
        np.random.rand()
        torch.rand(1)
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.set_float32_matmul_precision("medium")
        torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark
        torch.set_autocast_enabled("cpu", True)

    put_back([], change)
    assert torch.ones(1).device.type == "cpu"


def test_a_snapshot_can_be_restored_again():
    thing = [1]
    saved = snapshot([thing])
    for _ in range(2):
        thing.append(2)
        saved.restore()
        assert thing == [1]


def test_nothing_is_written_when_nothing_changed():
    tensor = torch.zeros(3)
    version = tensor._version
    snapshot([tensor]).restore()
    assert tensor._version == version


def test_an_iterator_that_was_advanced_is_told():
    thing = {"batches": iter([1, 2, 3])}
    saved = snapshot([thing])
    next(thing["batches"])
    (sentence,) = saved.restore()
    assert "['batches'] was changed and cannot be put back" in sentence


def test_a_rewritten_history_is_told():
    buffer = torch.zeros(3) * torch.ones(3, requires_grad=True)
    saved = snapshot([buffer])
    buffer.add_(1)
    (sentence,) = saved.restore()
    assert "autograd history" in sentence
    assert buffer.tolist() == [0, 0, 0]


def test_a_view_loses_the_history_of_its_base():
    base = torch.zeros(2, 3)
    view = base[0]
    saved = snapshot([view, base])
    base.add_(torch.ones(3, requires_grad=True))
    assert saved.restore() == ()
    assert view.grad_fn is None


def test_a_view_that_asked_for_its_history_is_told():
    base = torch.zeros(2, 3)
    view = base[0]
    saved = snapshot([base, view])
    base.add_(torch.ones(3, requires_grad=True))
    assert view.grad_fn is not None
    (sentence,) = saved.restore()
    assert "a view cannot lose the autograd history of its base" in sentence
    assert not base.requires_grad


@pytest.mark.compiles
def test_circles_and_deep_nesting():
    thing: list[object] = []
    for _ in range(5000):
        thing = [thing]
    thing.append(thing)
    put_back([thing], lambda: thing.append(1))


def test_devices_are_those_of_reachable_tensors():
    model = nn.Linear(2, 2)
    model.extra = {"a": [torch.ones(1, device="meta")]}
    assert devices_of([model]) == {"cpu", "meta"}


def test_a_cache_that_was_empty_is_emptied() -> None:
    calls: list[int] = []

    class Schedule:
        @functools.lru_cache  # noqa: B019
        def rate(self, step: int) -> int:
            calls.append(step)
            return len(calls)

    schedule = Schedule()
    before = snapshot((schedule,))
    schedule.rate(3)
    assert before.has_changed()
    before.restore()
    assert not calls and schedule.rate.cache_info().currsize == 0
    assert schedule.rate(3) == 1
