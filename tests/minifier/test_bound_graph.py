"""A graph with its inputs: its parts, the values in it, and its key."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import symbolic_trace

from fullgraph.minifier.graphs import BoundGraph, Inseparable
from tests.minifier.capture import capture_graphs


def _graph(function: Callable[..., Any], *inputs: Any) -> BoundGraph:
    return BoundGraph(symbolic_trace(function), inputs)


def _call(graph: BoundGraph, name: str) -> torch.fx.Node:
    """The call with such a name, or of such a function."""
    return next(n for n in graph.calls if name in (n.name, getattr(n.target, "__name__", n.target)))


def _run(graph: BoundGraph) -> Any:
    return graph.module(*graph.inputs)


def test_a_part_without_what_comes_before_has_its_values_as_inputs() -> None:
    graph = _graph(lambda x: x.sin().cos().tan(), torch.randn(3))
    part = graph.subgraph(graph.calls[1:])
    assert [node.target for node in part.calls] == ["cos", "tan"]
    assert torch.equal(part.inputs[0], graph.inputs[0].sin())
    assert torch.equal(_run(part)[0], _run(graph))


def test_a_part_returns_what_the_rest_uses() -> None:
    def function(x: Any) -> Any:
        one, two = x.sin(), x.cos()
        return one + two

    graph = _graph(function, torch.randn(3))
    assert [node.name for node in graph.subgraph(graph.calls[:2]).outputs] == ["sin", "cos"]


def test_single_calls_do_not_touch_each_other() -> None:
    graph = _graph(lambda x: x.sin().cos(), torch.randn(3))
    part = graph.subgraph(graph.calls, connected=False)
    assert len(part.inputs) == len(part.outputs) == 2
    assert torch.equal(part.inputs[1], graph.inputs[0].sin())


def test_an_intermediate_result_keeps_its_strides_and_its_gradient() -> None:
    def function(x: Any, weight: Any) -> Any:
        return (x * weight).transpose(0, 1).relu()

    graph = _graph(function, torch.randn(2, 3), torch.randn(3, requires_grad=True))
    (value,) = graph.subgraph([_call(graph, "relu")]).inputs
    assert value.stride() == (1, 3) and value.requires_grad and value.is_leaf


def test_inputs_are_used_as_they_are() -> None:
    parameter = torch.nn.Parameter(torch.randn(3))
    graph = _graph(lambda x, p: (x * p).sin(), torch.randn(3), parameter)
    assert graph.subgraph(graph.calls[:1]).inputs[1] is parameter


def test_values_are_those_before_a_later_write() -> None:
    def function(x: Any) -> Any:
        double = x * 2
        before = double.sin()
        double.add_(1)
        return before, double.cos()

    x = torch.ones(3)
    graph = _graph(function, x)
    values = graph.values()
    assert torch.equal(values[_call(graph, "mul")], torch.full((3,), 2.0))
    assert torch.equal(graph.subgraph([_call(graph, "sin")]).inputs[0], torch.full((3,), 2.0))
    assert torch.equal(graph.subgraph([_call(graph, "add_")]).inputs[0], torch.full((3,), 2.0))
    assert torch.equal(graph.subgraph([_call(graph, "cos")]).inputs[0], torch.full((3,), 3.0))


def test_a_write_to_an_input_is_undone_after_its_values_are_known() -> None:
    x = torch.ones(3)
    graph = _graph(lambda x: x.add_(1).mul(2), x)
    assert torch.equal(graph.values()[_call(graph, "add_")], torch.full((3,), 2.0))
    assert torch.equal(x, torch.ones(3)) and x._version == 0


def test_a_write_through_a_view_counts() -> None:
    def function(x: Any) -> Any:
        copy = x.clone()
        copy[0].zero_()
        return copy.sin()

    graph = _graph(function, torch.ones(2, 2))
    assert _call(graph, "zero_") in graph.cone(_call(graph, "sin"))
    value = graph.subgraph([_call(graph, "sin")]).inputs[0]
    assert torch.equal(value, torch.tensor([[0.0, 0.0], [1.0, 1.0]]))


def test_a_tensor_that_is_written_to_is_no_leaf_when_it_requires_grad() -> None:
    def function(x: Any, weight: Any) -> Any:
        return (x * weight).relu_()

    graph = _graph(function, torch.randn(3), torch.randn(3, requires_grad=True))
    part = graph.subgraph([_call(graph, "relu_")])
    assert part.inputs[0].requires_grad and not part.inputs[0].is_leaf
    _run(part)


def test_results_of_several_tensors_become_one_input_each() -> None:
    def function(x: Any) -> Any:
        one, two = x.chunk(2)
        return one + two

    graph = _graph(function, torch.randn(4))
    part = graph.subgraph([_call(graph, "getitem"), _call(graph, "getitem_1"), _call(graph, "add")])
    assert [node.name for node in part.calls] == ["add"] and len(part.inputs) == 2
    assert _run(graph.subgraph([_call(graph, "chunk")]))[0][0].shape == (2,)


def test_numbers_become_literals() -> None:
    graph = _graph(lambda x: x.reshape(x.size(0) * 2, 2), torch.randn(3, 4))
    part = graph.subgraph([_call(graph, "reshape")])
    assert part.calls[0].args[1:] == (6, 2) and len(part.inputs) == 1


def test_dictionaries_are_returned_flat() -> None:
    graph = _graph(lambda x: {"a": x.sin(), "b": [x.cos()]}, torch.randn(3))
    assert [node.name for node in graph.subgraph(graph.calls).outputs] == ["sin", "cos"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch._efficientzerotensor(3),
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.eye(3).to_sparse_csr(),
        lambda: torch.quantize_per_tensor(torch.randn(3), 0.1, 2, torch.quint8),
        lambda: torch.randn(2, 2).to_mkldnn(),
        lambda: torch.randn(3, dtype=torch.complex64).conj(),
        lambda: torch.randn(4, 1).expand(4, 3),
        lambda: torch.empty(3, device="meta"),
    ],
    ids=["zero", "sparse", "csr", "quantised", "mkldnn", "conjugate", "expanded", "meta"],
)
def test_special_tensors_stay_what_they_are(make: Callable[[], torch.Tensor]) -> None:
    tensor = make()
    graph = _graph(lambda x: x.detach().clone(), tensor)
    value = graph.subgraph([_call(graph, "clone")]).inputs[0]
    assert (value.layout, value.dtype, value.device) == (tensor.layout, tensor.dtype, tensor.device)
    assert value._is_zerotensor() == tensor._is_zerotensor()
    assert value.is_quantized == tensor.is_quantized and value.is_conj() == tensor.is_conj()
    if tensor.layout is torch.strided:
        assert value.stride() == tensor.stride()
    assert graph.key == _graph(lambda x: x.detach().clone(), tensor).key


@pytest.mark.compiles
def test_regions_stay_around_what_is_in_them() -> None:
    def function(x: torch.Tensor) -> Any:
        with torch.no_grad():
            a = x.sin()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            b = x @ x
        return a, b

    graph = capture_graphs(function, torch.randn(2, 2, requires_grad=True))
    single = graph.subgraph([_call(graph, "matmul")], connected=False)
    assert single.calls[1].target is operator.matmul and len(single.calls) == 3
    assert _run(single)[0].dtype == torch.bfloat16 and not torch.is_autocast_enabled("cpu")
    single = graph.subgraph([_call(graph, "sin")], connected=False)
    assert len(single.calls) == 3 and not _run(single)[0].requires_grad
    assert not graph.values()[_call(graph, "sin")].requires_grad and torch.is_grad_enabled()


@pytest.mark.compiles
def test_a_region_cannot_be_an_input_and_stays() -> None:
    def function(x: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x, x.sin()

    graph = capture_graphs(function, torch.randn(2, 2))
    part = graph.subgraph([_call(graph, "sin")])
    assert part.calls[1].target == "sin" and len(part.calls) == 3


@pytest.mark.compiles
def test_a_tensor_inside_of_a_transform_cannot_be_an_input() -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.func.vmap(lambda row: row.sin().cos())(x)

    graph = capture_graphs(function, torch.randn(2, 2))
    with pytest.raises(Inseparable):
        graph.subgraph([_call(graph, "cos")], connected=False)


@pytest.mark.compiles
def test_a_write_inside_of_nested_transforms_is_left_to_them() -> None:
    """Their tensors have no memory that could be copied."""

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return torch.trace(x) * torch.eye(3)

    twice = torch.func.jacfwd(torch.func.jacfwd(scaled))
    graph = capture_graphs(lambda x: twice(x.sin()), torch.randn(3, 3))
    values = graph.values()
    assert torch.is_tensor(values[_call(graph, "sin")]) and values.writes


@pytest.mark.compiles
def test_a_branch_keeps_its_bodies() -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x * 2,))[0]

    graph = capture_graphs(function, torch.ones(3))
    cond = next(node for node in graph.calls if node.name == "cond")
    part = graph.subgraph([cond], connected=False)
    assert len(part.module._modules) == 2 and part.ops == 3
    assert torch.equal(_run(part)[0][0], torch.full((3,), 2.0).sin())


@pytest.mark.compiles
def test_symbolic_sizes_are_plain_numbers() -> None:
    graph = capture_graphs(
        lambda x: (x + 1).reshape(x.shape[0] * x.shape[1]), torch.randn(3, 4), dynamic=True
    )
    assert {type(value) for value in graph.inputs} <= {int, torch.Tensor}
    part = graph.subgraph([_call(graph, "reshape")])
    assert _run(part)[0].shape == (12,)


def test_random_numbers_are_the_same_each_time() -> None:
    graph = _graph(lambda x: torch.nn.functional.dropout(x, 0.5).sin(), torch.ones(20))
    state = torch.get_rng_state()
    again = BoundGraph(graph.module, graph.inputs).values()
    assert torch.equal(graph.values()[graph.calls[0]], again[graph.calls[0]])
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.compiles
def test_a_custom_op_that_writes_is_seen_to() -> None:
    @torch.library.custom_op("fullgraph_test::double_", mutates_args={"x"})
    def double(x: torch.Tensor) -> None:
        x.mul_(2)

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 0
        double(y)
        return y.sin()

    graph = capture_graphs(function, torch.ones(3))
    sin = graph.calls[-1]
    assert len(graph.cone(sin)) == 3
    assert torch.equal(graph.subgraph([sin]).inputs[0], torch.full((3,), 2.0))


def test_constants_stay_in_the_module() -> None:
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.arange(3.0))

        def forward(self, x: Any) -> Any:
            return (x + self.table).sin()

    graph = _graph(Module(), torch.ones(3))
    part = graph.subgraph([_call(graph, "add")])
    assert torch.equal(part.module.table, torch.arange(3.0)) and len(part.inputs) == 1


def test_what_is_returned_twice_is_returned_twice() -> None:
    def function(x: Any) -> Any:
        y = x.sin()
        return y, y, x, x

    graph = _graph(function, torch.ones(3))
    part = graph.subgraph(graph.calls)
    assert sorted(node.name for node in part.outputs) == ["sin", "sin", "x", "x"]


def test_a_module_that_counts_is_put_back() -> None:
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(3)

        def forward(self, x: Any) -> Any:
            return self.norm(x).relu()

    graph = _graph(Module(), torch.randn(4, 3))
    assert _call(graph, "norm") in graph.values().effects
    assert graph.module.norm.num_batches_tracked == 0
    assert torch.equal(graph.module.norm.running_mean, torch.zeros(3))


def test_inference_mode() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        y.add_(1)
        return y.cos()

    with torch.inference_mode():
        graph = _graph(function, torch.ones(3))
        assert torch.equal(graph.values()[_call(graph, "mul")], torch.full((3,), 2.0))
        assert torch.equal(graph.subgraph([_call(graph, "cos")]).inputs[0], torch.full((3,), 3.0))
        assert len(graph.key) == 64


class TestKey:
    def test_names_do_not_count(self) -> None:
        x = torch.randn(3)
        assert _graph(lambda a: a.sin(), x).key == _graph(lambda b: b.sin(), x).key

    def test_targets_arguments_and_inputs_do(self) -> None:
        x = torch.zeros(2, 2)
        keys = {
            _graph(lambda a: a.sin(), x).key,
            _graph(lambda a: a.cos(), x).key,
            _graph(lambda a: a.sum(0), x).key,
            _graph(lambda a: a.sum(1), x).key,
            _graph(lambda a: a.sin(), x + 1).key,
            _graph(lambda a: a.sin(), x.double()).key,
            _graph(lambda a: a.sin(), torch.zeros(2, 2).t()).key,
            _graph(lambda a: a.sin(), torch.zeros(2, 2, requires_grad=True)).key,
            _graph(lambda a: a.sin(), torch._efficientzerotensor(2, 2)).key,
            _graph(lambda a: a.sin(), -x).key,
        }
        assert len(keys) == 10

    def test_sharing_memory_does(self) -> None:
        x = torch.zeros(3)
        shared = _graph(lambda a, b: a + b, x, x.view(3))
        assert shared.key != _graph(lambda a, b: a + b, x, torch.zeros(3)).key

    @pytest.mark.compiles
    def test_the_bodies_of_a_branch_do(self) -> None:
        def graph(scale: int) -> BoundGraph:
            def function(x: torch.Tensor) -> Any:
                return torch.cond(x.sum() > 0, lambda y: y * scale, lambda y: y.cos(), (x,))

            return capture_graphs(function, torch.ones(3))

        assert graph(2).key != graph(3).key
