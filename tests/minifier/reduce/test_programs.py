"""Programs of many kinds are captured, taken apart and reduced to each of their calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from fullgraph.minifier.graphs import BoundGraph, Inseparable
from fullgraph.minifier.reduce.graph.calls import reduce_graph
from fullgraph.minifier.reduce.inputs.plain_inputs import reduce_inputs
from tests.minifier.capture import capture_graphs
from tests.minifier.fake_oracle import problem, targets

pytestmark = pytest.mark.compiles

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def _program(*inputs: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def take(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__.strip("_")] = (function, inputs)
        return function

    return take


@_program(torch.ones(3, requires_grad=True))
def _gradient(x: torch.Tensor) -> Any:
    return torch.func.grad(lambda t: (t.sin() * t).sum())(x) * 2


@_program(torch.ones(3))
def _forward_gradient(x: torch.Tensor) -> Any:
    return torch.func.jvp(lambda t: t.sin() * t, (x,), (torch.ones(3),))[1].exp()


class _Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin() * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * x.cos()


@_program(torch.ones(3, requires_grad=True))
def _own_function(x: torch.Tensor) -> Any:
    return _Twice.apply(x * 2).exp()


@_program(torch.ones(4, dtype=torch.complex64))
def _complex(x: torch.Tensor) -> Any:
    return (x.conj() * x).real.sqrt() + torch.view_as_real(x).sum()


@_program(torch.arange(16.0).reshape(4, 4))
def _writes(x: torch.Tensor) -> Any:
    x = x.clone()
    x[1:3, 0] = 5
    x[x > 2] = 0
    y = x[:, [0, 2]]
    y += 1
    z = y.t()
    z.mul_(2)
    return y, z.contiguous(), x.index_add_(0, torch.tensor([0]), torch.ones(1, 4))


@_program(torch.ones(4, 4))
def _random(x: torch.Tensor) -> Any:
    noise = torch.rand_like(x) * torch.randn(4, 4)
    return F.dropout(x, 0.5) + noise + torch.bernoulli(torch.full((4, 4), 0.5))


@_program(torch.arange(6.0))
def _several_results(x: torch.Tensor) -> Any:
    a, b, c = x.split(2)
    most = x.reshape(2, 3).max(1)
    return a * b + c, most.values, most.indices, torch.topk(x, 3)[0].sort().values


@_program(torch.ones(4, 4, requires_grad=True))
def _nested_regions(x: torch.Tensor) -> Any:
    with torch.no_grad():
        a = x.sin()
        with torch.enable_grad():
            b = (x * a).cos()
        c = b + 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.no_grad():
            d = x @ x
        e = d @ x
    return a, b, c, d, e


@_program(torch.ones(4, 3))
def _scan(x: torch.Tensor) -> Any:
    from torch._higher_order_ops.scan import scan

    return scan(lambda c, y: (c + y.sin(), (c * y).cos()), x[0], x * 2)[1].exp()


@_program(torch.ones(2, 3, 8, 8))
def _pooling(x: torch.Tensor) -> Any:
    return F.interpolate(F.max_pool2d(x, 2), scale_factor=2.0).softmax(1)


@pytest.fixture(params=PROGRAMS, scope="module")
def graph(request: pytest.FixtureRequest) -> BoundGraph:
    function, inputs = PROGRAMS[request.param]
    return capture_graphs(function, *inputs)


def test_its_parts_run(graph: BoundGraph) -> None:
    for count in range(len(graph.calls)):
        for keep in (graph.calls[:count], graph.calls[count:], graph.calls[count : count + 1]):
            for connected in (True, False):
                try:
                    part = graph.subgraph(keep, connected=connected)
                except Inseparable:
                    continue
                assert part.values() and part.key
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")


def test_each_call_is_found(graph: BoundGraph) -> None:
    for name in dict.fromkeys(targets(graph)):
        if name == "getitem" or "nesting" in name or name.startswith(("_", "set_")):
            continue

        def fails(candidate: BoundGraph, name: str = name) -> bool:
            return name in targets(candidate)

        given = problem(graph, fails)
        reduce_graph(given)
        reduce_inputs(given)
        assert fails(given.current) and len(given.current.calls) == 1
        assert given.oracle.counts.candidates <= 40
