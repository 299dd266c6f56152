"""Two runs are told apart by all that a caller can see: what holds the outputs, and what the call
leaves in its inputs and in the module."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from fullgraph.compiler.float64_copies import to_float64
from fullgraph.compiler.numerics import find_mismatch, is_pointwise
from fullgraph.compiler.results import RunResults, record_tensor, run_and_record

X = torch.arange(3.0)


def told(
    expected: Callable[..., Any], got: Callable[..., Any], inputs: Callable[[], tuple[Any, ...]]
) -> str:
    one, other = (run_and_record(function, inputs(), {}) for function in (expected, got))
    return str(find_mismatch(one, other))


@pytest.mark.parametrize(
    ("expected", "got", "said"),
    [
        (lambda x: [x], lambda x: (x,), "output (type): expected list, got tuple"),
        (
            lambda x: {"a": OrderedDict(b=x)},
            lambda x: {"a": {"b": x}},
            "output['a'] (type): expected OrderedDict, got dict",
        ),
        (
            lambda x: x.max(0),
            lambda x: tuple(x.max(0)),
            "output (type): expected max, got tuple",
        ),
        (
            lambda x: {"a": x},
            lambda x: {"a": x, "b": x},
            "output (keys): expected output['a'], got output['a'], output['b']",
        ),
        (lambda x: x, lambda x: {}, "output (keys): expected output, got nothing"),
        (lambda x: ([x], {"b": x}), lambda x: ([x], {"b": x}), "None"),
    ],
)
def test_what_holds_the_outputs(expected: Any, got: Any, said: str) -> None:
    assert told(expected, got, lambda: (X,)) == said


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda d: d["l"].append(X), "input[0]['l'][1] (keys): expected Tensor, got nothing"),
        (lambda d: d["l"].clear(), "input[0]['l'][0] (keys): expected nothing, got Tensor"),
        (lambda d: d.update(n=3), "input[0]['n'] (keys): expected 3, got nothing"),
        (lambda d: d.update(x=X + 1), "input[0]['x']: expected 1, got 0"),
        (lambda d: d.update(x=X.int()), "input[0]['x'] (dtype): expected torch.int32, got"),
        (lambda d: d.update(x="a"), "input[0]['x'] (type): expected 'a', got Tensor"),
    ],
)
def test_what_is_left_in_the_inputs(write: Callable[[Any], None], said: str) -> None:
    found = told(write, lambda d: None, lambda: ({"x": X.clone(), "l": [X.clone()]},))
    assert found.startswith(said), found


class Stateful(nn.Module):
    def __init__(self, write: Callable[[nn.Module], None]) -> None:
        super().__init__()
        self.inner, self.write = nn.ReLU(), write
        self.log, self.cache, self.last = [2], {"n": []}, X
        self.inner.register_buffer("seen", torch.zeros(1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.write(self)
        return x


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda m: m.inner.seen.add_(1), "inner.seen: expected 1, got 0"),
        (lambda m: setattr(m.inner, "length", 2), "inner.length (keys): expected 2, got nothing"),
        (lambda m: setattr(m.inner, "inplace", True), "inner.inplace: expected True, got False"),
        (lambda m: m.log.append(3), "log[1] (keys): expected 3, got nothing"),
        (lambda m: m.cache["n"].append(1), "cache['n'][0] (keys): expected 1, got nothing"),
        (lambda m: setattr(m, "last", X + 1), "last: expected 1, got 0"),
    ],
)
def test_what_is_left_in_the_module(write: Callable[[nn.Module], Any], said: str) -> None:
    found = [
        run_and_record(module, (X,), {}, module=module)
        for module in (Stateful(write), Stateful(lambda module: None))
    ]
    assert str(find_mismatch(*found)) == said


def recorded(value: float | torch.Tensor, dtype: torch.dtype) -> RunResults:
    elements = torch.as_tensor(value, dtype=dtype).reshape(-1)
    return RunResults({"output": record_tensor(elements)}, {}, {})


@pytest.mark.parametrize(
    ("dtype", "pointwise", "accumulating"),
    [
        (torch.float64, 5e-10, 5e-8),
        (torch.float32, 5e-6, 5e-5),
        (torch.float16, 4e-3, 9e-3),
        (torch.bfloat16, 8e-3, 2.4e-2),
    ],
)
def test_pointwise_graphs_have_the_smaller_tolerance(
    dtype: torch.dtype, pointwise: float, accumulating: float
) -> None:
    one = recorded(1.0, dtype)
    assert find_mismatch(one, recorded(1 + pointwise, dtype), pointwise=True) is None
    assert find_mismatch(one, recorded(1 + accumulating, dtype), pointwise=True) is not None
    assert find_mismatch(one, recorded(1 + accumulating, dtype)) is None
    assert find_mismatch(one, recorded(1 + 8 * accumulating, dtype)) is not None


def test_float64_copies_share_the_memory_that_the_arguments_share() -> None:
    memory = torch.arange(6.0).reshape(3, 2)
    args = (memory, [memory[1:], memory.T], torch.ones(2, requires_grad=True), torch.arange(2), "x")
    _, (whole, (rest, turned), other, numbers, text), kwargs = to_float64(len, args, {"m": memory})
    assert whole.dtype is turned.dtype is torch.float64 and kwargs["m"] is whole
    assert rest.equal(memory[1:].double()) and turned.equal(memory.T.double())
    whole.zero_()
    assert not rest.any() and not turned.any() and memory.any()
    assert other.requires_grad and other.dtype is torch.float64 and other.is_leaf
    assert numbers.dtype is torch.int64 and numbers is not args[3] and text == "x"


def test_the_element_that_differs_is_named_by_its_index() -> None:
    one, other = torch.zeros(2, 3), torch.zeros(2, 3)
    other[1, 2] = 1
    found = find_mismatch(*(run_and_record(lambda x=x: x, (), {}) for x in (one, other)))
    assert found is not None and found.element == "[1, 2]"


def test_a_result_nearer_to_float64_is_equal() -> None:
    one, other, exact = (recorded(value, torch.float32) for value in (1.0, 1.01, 1.008))
    assert find_mismatch(one, other, float64_results=lambda: exact) is None
    assert find_mismatch(other, one, float64_results=lambda: exact) is not None


def test_a_long_sum_may_miss_float64_by_roundings_of_its_greatest_element() -> None:
    values = torch.tensor([0.8, 1e-6])
    exact, eager = recorded(values, torch.float32), recorded(values, torch.float32)
    for error, is_equal in ((2e-5, True), (4e-5, False)):
        other = recorded(values + error, torch.float32)
        for kind in ({}, {"pointwise": True}):
            found = find_mismatch(eager, other, float64_results=lambda: exact, **kind)
            assert (found is None) == (is_equal and not kind)


@pytest.mark.parametrize(
    ("function", "pointwise"),
    [
        (lambda x: torch.relu(x).view(-1) + 1, True),
        (lambda x: x[0].exp() * 2, True),
        (lambda x: x @ x, False),
        (lambda x: x + x.sum(), False),
        (lambda x: torch.nn.functional.layer_norm(x, (3,)), False),
    ],
)
def test_pointwise_graphs_are_recognised(function: Callable[..., Any], pointwise: bool) -> None:
    assert is_pointwise(torch.fx.symbolic_trace(function)) == pointwise


def test_results_are_compared_with_float64_on_their_own_device() -> None:
    one, other, exact = (recorded(value, torch.float32) for value in (1.0, 2.0, 1.0))
    with torch.device("meta"):  # where other tensors are made
        found = find_mismatch(one, other, float64_results=lambda: exact)
    assert found is not None and found.aspect == "value"
