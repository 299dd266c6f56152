"""Graphs are reduced to what fails; judges are plain functions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx import GraphModule, symbolic_trace
from torch.fx.experimental.proxy_tensor import make_fx

from fullgraph.minifier.graphs import BoundGraph
from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce.graph.calls import reduce_graph, without_calls
from fullgraph.minifier.reduce.graph.single_call import isolate_calls
from tests.minifier.capture import capture_graphs
from tests.minifier.fake_oracle import problem, run, targets


def _aten(function: Callable[..., Any], *inputs: Any) -> BoundGraph:
    return BoundGraph(make_fx(function)(*inputs), inputs)


def _traced(function: Callable[..., Any], *inputs: Any) -> BoundGraph:
    return BoundGraph(symbolic_trace(function), inputs)


def _reduced(
    graph: BoundGraph, fails: Callable[[BoundGraph], Any], jobs: int = 1
) -> Problem[BoundGraph]:
    given = problem(graph, fails, jobs=jobs)
    reduce_graph(given)
    assert fails(given.current)
    return given


def _size(graph: BoundGraph) -> tuple[int, int]:
    return len(graph.module.graph.nodes), len(graph.inputs)


class Block(torch.nn.Module):
    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, d = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(b, n, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        a = (q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5).softmax(-1)
        x = x + self.out((a @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.down(torch.relu(self.up(self.norm2(x))))


@pytest.fixture(scope="module")
def vit_aten() -> BoundGraph:
    model = torch.nn.Sequential(*(Block() for _ in range(6)))
    with torch.no_grad():
        return _aten(model, torch.randn(2, 5, 32))


@pytest.fixture(scope="module")
def vit() -> BoundGraph:
    return capture_graphs(torch.nn.Sequential(*(Block() for _ in range(6))), torch.randn(2, 5, 32))


class TestScenarios:
    def test_a_multiplication(self) -> None:
        def function(a: Any, b: Any, c: Any) -> Any:
            return ((a + b) * c).sin() + (a - b).cos()

        graph = _aten(function, *(torch.randn(3) for _ in range(3)))
        found = _reduced(graph, lambda g: "mul" in targets(g)).current
        assert targets(found) == ["mul"] and _size(found) <= (4, 2)

    def test_nan_is_made(self) -> None:
        def function(x: Any) -> Any:
            y = x.relu()
            zero = y - y
            return zero / zero + 3

        def fails(graph: BoundGraph) -> Any:
            if any(value.isnan().any() for value in graph.inputs):
                return False
            return run(graph)[0].isnan().any()

        found = _reduced(_aten(function, torch.randn(3)), fails).current
        assert _size(found) == (3, 1) and not found.inputs[0].isnan().any()

    def test_an_input_is_returned(self) -> None:
        def function(a: Any, b: Any, c: Any) -> Any:
            a, c = a.sin(), c.cos()
            return a, b, c, a * c

        graph = _aten(function, *(torch.randn(3) for _ in range(3)))
        found = _reduced(graph, lambda g: any(n.op == "placeholder" for n in g.outputs)).current
        assert _size(found) == (2, 1)

    def test_a_tuple_is_used(self) -> None:
        def function(a: Any, b: Any) -> Any:
            deviation, mean = torch.std_mean(a)
            return (deviation + b * mean,)

        graph = _aten(function, torch.randn(3), torch.randn(3))
        found = _reduced(graph, lambda g: "add" in targets(g)).current
        assert _size(found) == (4, 2)

    def test_a_module_in_a_module(self) -> None:
        class Module(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.relu = torch.nn.ReLU()

            def forward(self, x: Any) -> Any:
                y = self.relu(x)
                return (y - y) * 2 + 3

        found = _reduced(_traced(Module(), torch.randn(3)), lambda g: "relu" in targets(g)).current
        assert _size(found) == (3, 1) and isinstance(found.module.relu, torch.nn.ReLU)

    def test_a_chain_of_41_calls(self) -> None:
        def function(x: Any) -> Any:
            for _ in range(20):
                x = x.sin()
            x = x.relu()
            for _ in range(20):
                x = x.cos()
            return x

        found = _reduced(_traced(function, torch.randn(3)), lambda g: "relu" in targets(g))
        assert targets(found.current) == ["relu"] and _size(found.current) == (3, 1)
        assert found.oracle.counts.candidates <= 10

    def test_the_device_stays(self) -> None:
        graph = _traced(lambda x: (x + 1).relu().sum(), torch.empty(3, device="meta"))
        found = _reduced(graph, lambda g: "relu" in targets(g)).current
        assert found.inputs[0].device.type == "meta" and _size(found) == (3, 1)


class TestBigGraphs:
    @pytest.mark.compiles
    def test_one_bad_call_of_hundreds(self, vit_aten: BoundGraph) -> None:
        assert vit_aten.ops > 300
        found = _reduced(vit_aten, lambda g: "relu" in targets(g))
        assert targets(found.current) == ["relu"] and found.oracle.counts.candidates <= 25

    @pytest.mark.compiles
    def test_each_call_of_a_captured_graph_is_found(self, vit: BoundGraph) -> None:
        for name in ("softmax", "layer_norm", "permute", "matmul"):
            found = _reduced(vit, lambda g, name=name: name in targets(g))
            assert targets(found.current) == [name] and found.oracle.counts.candidates <= 25

    def test_two_calls_that_need_not_be_connected(self, vit_aten: BoundGraph) -> None:
        found = _reduced(vit_aten, lambda g: {"relu", "_softmax"} <= set(targets(g)))
        assert sorted(targets(found.current)) == ["_softmax", "relu"]
        assert found.oracle.counts.candidates <= 45

    @pytest.mark.compiles
    def test_three_calls_in_a_row(self, vit: BoundGraph) -> None:
        def fails(graph: BoundGraph) -> bool:
            return any(
                _before(_before(node, "linear"), "layer_norm")
                for node in graph.calls
                if node.target is torch.relu
            )

        found = _reduced(vit, fails)
        assert targets(found.current) == ["layer_norm", "linear", "relu"]
        assert found.oracle.counts.candidates <= 45

    def test_several_jobs_give_the_same(self, vit: BoundGraph) -> None:
        def fails(graph: BoundGraph) -> bool:
            return {"relu", "softmax"} <= set(targets(graph))

        assert _reduced(vit, fails).current.key == _reduced(vit, fails, jobs=3).current.key


def _before(node: Any, name: str) -> Any:
    """The call of `name` whose result `node` gets; None if there is none, or no node."""
    used = node.all_input_nodes if node is not None else []
    return next((n for n in used if name == getattr(n.target, "__name__", n.target)), None)


class TestTogether:
    def test_failing_need_not_be_monotone(self) -> None:
        def function(x: Any) -> Any:
            for _ in range(12):
                x = (x + 1).sin()
            return x.relu()

        def fails(graph: BoundGraph) -> bool:
            names = targets(graph)
            return names.count("add") in (0, 1, 7, 12) and "sin" in names

        found = _reduced(_traced(function, torch.randn(3)), fails).current
        assert targets(found) == ["sin"]

    def test_a_mutation_and_what_reads_it(self) -> None:
        def function(x: Any, y: Any) -> Any:
            a = x + 1
            b = y.sin()
            a.mul_(2)
            return (a.cos() + b).relu()

        def fails(graph: BoundGraph) -> bool:
            written = {node.args[0] for node in graph.calls if node.target == "mul_"}
            return any(n.target == "cos" and n.args[0] in written for n in graph.calls)

        found = _reduced(_traced(function, torch.randn(3), torch.randn(3)), fails).current
        assert targets(found) == ["mul_", "cos"] and len(found.inputs) == 1

    def test_a_mutation_of_an_input_by_itself(self) -> None:
        def function(x: Any) -> Any:
            y = x.sin()
            x.add_(1)
            return y.cos()

        x = torch.zeros(3)
        found = _reduced(_traced(function, x), lambda g: "add_" in targets(g)).current
        assert targets(found) == ["add_"] and torch.equal(x, torch.zeros(3))

    def test_several_outputs_where_they_are_needed(self) -> None:
        def function(x: Any) -> Any:
            y = x.sin()
            return y, y.cos(), y.tan().exp(), y * 2

        found = _reduced(_traced(function, torch.randn(3)), lambda g: len(g.outputs) > 1).current
        assert len(found.outputs) == 2 and found.ops <= 2

    def test_a_connection_through_other_calls(self) -> None:
        def function(x: Any) -> Any:
            x = x.tan().relu()
            for _ in range(10):
                x = x.reshape(2, 3).sin().t().reshape(-1)
            return x.exp().sum()

        def fails(graph: BoundGraph) -> bool:
            return any(
                graph.cone(node) & {n for n in graph.calls if n.target == "relu"}
                for node in graph.calls
                if node.target == "exp"
            )

        found = _reduced(_traced(function, torch.randn(6)), fails)
        assert targets(found.current) == ["relu", "exp"] and found.oracle.counts.candidates <= 45

    def test_one_result_that_is_returned_twice(self) -> None:
        def function(x: Any) -> Any:
            y = x.sin().cos()
            return y, x.tan(), y

        def fails(graph: BoundGraph) -> bool:
            return len(graph.outputs) > len(set(graph.outputs))

        found = _reduced(_traced(function, torch.randn(3)), fails).current
        assert _size(found) == (2, 1) and len(found.outputs) == 2


class TestKept:
    @pytest.mark.compiles
    def test_a_branch(self) -> None:
        def function(x: torch.Tensor) -> Any:
            y = (x * 2).tan()
            z = torch.cond(y.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (y,))
            return z.exp().relu()

        found = _reduced(
            capture_graphs(function, torch.ones(3)), lambda g: "cond" in targets(g)
        ).current
        assert targets(found) == ["cond"] and len(found.constants) == 2

    @pytest.mark.compiles
    def test_what_is_not_needed_in_a_body_goes(self) -> None:
        def body(x: torch.Tensor) -> torch.Tensor:
            y = x.sin()
            for _ in range(6):
                y = (y + x).cos()
            return y.tanh().exp()

        def function(x: torch.Tensor) -> Any:
            return torch.cond(x.sum() > 0, body, lambda a: a.sin().cos(), (x,)) + 1

        def fails(graph: BoundGraph) -> bool:
            inner = [m for m in graph.module.children() if isinstance(m, GraphModule)]
            return any(n.target == "tanh" for m in inner for n in m.graph.nodes) and (
                "cond" in targets(graph)
            )

        found = _reduced(capture_graphs(function, torch.ones(3)), fails)
        assert targets(found.current) == ["cond"] and found.current.ops == 2
        assert torch.equal(run(found.current)[0][0], torch.ones(3).tanh())

    @pytest.mark.compiles
    def test_what_is_in_a_checkpoint_comes_out(self) -> None:
        def body(x: torch.Tensor) -> torch.Tensor:
            return (x.sin() @ x).relu()

        def function(x: torch.Tensor) -> Any:
            y = torch.utils.checkpoint.checkpoint(body, x + 1, use_reentrant=False)
            return y.exp()

        def fails(graph: BoundGraph) -> bool:
            inner = [m for m in graph.module.modules() if isinstance(m, GraphModule)]
            return any("relu" in str(n.target) for m in inner for n in m.graph.nodes)

        found = _reduced(
            capture_graphs(function, torch.randn(3, 3, requires_grad=True)), fails
        ).current
        assert targets(found) == ["relu"]

    @pytest.mark.compiles
    def test_a_region_that_is_needed(self) -> None:
        def function(x: torch.Tensor) -> Any:
            y = x.sin()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = (y @ y).cos()
            return y.exp()

        def fails(graph: BoundGraph) -> bool:
            return any(
                getattr(value, "dtype", None) is torch.bfloat16 for value in run(graph)
            ) and "matmul" in targets(graph)

        found = _reduced(capture_graphs(function, torch.randn(3, 3)), fails).current
        assert targets(found) == ["_enter_autocast", "matmul", "_exit_autocast"]

    @pytest.mark.compiles
    def test_a_region_that_is_not_needed_goes(self) -> None:
        def function(x: torch.Tensor) -> Any:
            with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
                return (x.sin() @ x).relu()

        found = _reduced(
            capture_graphs(function, torch.randn(3, 3)), lambda g: "relu" in targets(g)
        )
        assert targets(found.current) == ["relu"]

    @pytest.mark.compiles
    def test_a_transform(self) -> None:
        def function(x: torch.Tensor) -> Any:
            return torch.func.vmap(lambda row: row.sin().cos())(x + 1).exp()

        def fails(graph: BoundGraph) -> bool:
            return any("increment_nesting" in name for name in targets(graph)) and (
                "cos" in targets(graph)
            )

        found = _reduced(capture_graphs(function, torch.randn(2, 2)), fails).current
        assert "sin" not in targets(found) and "exp" not in targets(found)

    def test_gradients_are_asked_for_as_before(self) -> None:
        def function(x: Any, weight: Any) -> Any:
            return (x @ weight).sin().relu()

        graph = _traced(function, torch.randn(2, 2), torch.randn(2, 2, requires_grad=True))
        found = _reduced(
            graph, lambda g: "relu" in targets(g) and any(v.requires_grad for v in g.inputs)
        )
        assert targets(found.current) == ["relu"] and found.current.inputs[0].requires_grad


class TestArguments:
    def test_those_that_are_not_needed_go(self) -> None:
        def function(x: Any, weight: Any, bias: Any) -> Any:
            return torch.nn.functional.layer_norm(x, (4,), weight, bias, eps=1e-3)

        inputs = (torch.randn(2, 4), torch.randn(4), torch.randn(4))
        found = _reduced(_traced(function, *inputs), lambda g: "layer_norm" in targets(g)).current
        assert len(found.calls[0].args) == 2 and not found.calls[0].kwargs
        assert len(found.inputs) == 1

    def test_literals_become_plain(self) -> None:
        graph = _traced(lambda x: torch.clamp(x, -3.75, 17.25), torch.randn(3))
        found = _reduced(graph, lambda g: "clamp" in targets(g) and len(g.calls[0].args) > 2)
        assert found.current.calls[0].args[1:] == (0.0, 0.0)

    def test_a_number_that_is_needed_stays(self) -> None:
        graph = _traced(lambda x: torch.clamp(x, -3.75, 17.25), torch.randn(3))
        found = _reduced(graph, lambda g: 17.25 in g.calls[0].args if g.calls else False)
        assert found.current.calls[0].args[2] == 17.25

    def test_one_input_does_for_two(self) -> None:
        graph = _traced(lambda x, y: x + y, torch.randn(3), torch.randn(3))
        found = _reduced(graph, lambda g: "add" in targets(g)).current
        assert len(found.inputs) == 1


_UNARY = ("sin", "cos", "tan", "exp", "relu", "neg", "abs", "clone", "tanh", "sigmoid")
_BINARY = (operator.add, operator.mul, operator.sub)


@st.composite
def _graphs(draw: st.DrawFn) -> BoundGraph:
    """Up to a dozen calls, each of what came before."""
    graph = torch.fx.Graph()
    values = [graph.placeholder(f"x{number}") for number in range(draw(st.integers(1, 3)))]
    inputs = tuple(torch.full((2, 2), 0.5 + number) for number in range(len(values)))
    for _ in range(draw(st.integers(1, 12))):
        one = draw(st.sampled_from(values))
        if draw(st.booleans()):
            values.append(graph.call_method(draw(st.sampled_from(_UNARY)), (one,)))
        else:
            other = draw(st.sampled_from(values))
            values.append(graph.call_function(draw(st.sampled_from(_BINARY)), (one, other)))
    graph.output(tuple(draw(st.lists(st.sampled_from(values[-3:]), min_size=1, max_size=2))))
    return BoundGraph(GraphModule({}, graph), inputs)


def test_the_call_whose_result_is_wrong_is_asked_first() -> None:
    names = ("sin", "cos", "relu", "exp", "tanh", "sigmoid", "neg", "abs")

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(getattr(torch, name)(x) for name in names)

    def where(candidate: BoundGraph) -> str:
        called = targets(candidate)
        return f"output[{called.index('exp')}]" if "exp" in called else ""

    def asked(**options: Any) -> int:
        given = problem(_aten(f, torch.randn(3)), where, **options)
        assert isolate_calls(given)
        assert targets(given.current) == ["exp"]
        return given.oracle.counts.candidates

    assert asked(where=where) == 2 < asked()


@pytest.mark.compiles
@settings(deadline=None, max_examples=60)
@given(graph=_graphs(), data=st.data())
def test_what_is_left_fails_and_no_call_can_be_missed(
    graph: BoundGraph, data: st.DataObject
) -> None:
    wanted = set(data.draw(st.lists(st.sampled_from(targets(graph)), max_size=3)))
    connected = data.draw(st.booleans())

    def fails(candidate: BoundGraph) -> bool:
        if not connected:
            return wanted <= set(targets(candidate))
        cones = (candidate.cone(node) for node in candidate.outputs)
        return any(wanted <= {_name(call) for call in cone} for cone in cones)

    start = graph.subgraph(graph.calls, outputs=graph.outputs)
    if not fails(start):
        return
    found = _reduced(start, fails).current
    for node in found.calls:
        smaller = without_calls(found, {node: None})
        assert not fails(smaller) or not (smaller.calls or smaller.outputs)


def _name(node: torch.fx.Node) -> str:
    return str(getattr(node.target, "__name__", node.target))
