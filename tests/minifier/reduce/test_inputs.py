"""What a graph is called with becomes plain, while judges, plain functions, still say yes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx import symbolic_trace

from fullgraph.minifier.graphs import BoundGraph
from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce.inputs.plain_inputs import reduce_inputs
from tests.minifier.capture import capture_graphs
from tests.minifier.fake_oracle import problem, run


def _reduced(
    function: Callable[..., Any] | BoundGraph, *inputs: Any, fails: Callable[[BoundGraph], Any]
) -> Problem[BoundGraph]:
    graph = (
        function
        if isinstance(function, BoundGraph)
        else BoundGraph(symbolic_trace(function), inputs)
    )
    given = problem(graph, fails)
    reduce_inputs(given)
    assert fails(given.current)
    return given


def _output(graph: BoundGraph) -> torch.Tensor:
    found = run(graph)
    return found[0] if isinstance(found, tuple) else found


class TestPlain:
    def test_what_nothing_depends_on_becomes_one_zero(self) -> None:
        x = torch.randn(3, 5, 128, requires_grad=True).transpose(0, 1)
        found = _reduced(lambda x: x.relu(), x, fails=lambda g: True)
        assert torch.equal(found.current.inputs[0], torch.zeros(1))
        assert not found.current.inputs[0].requires_grad and found.oracle.counts.candidates <= 6

    def test_a_parameter_that_needs_no_gradient_is_a_tensor(self) -> None:
        parameter = torch.nn.Parameter(torch.randn(4))
        found = _reduced(lambda p: p.sin(), parameter, fails=lambda g: True).current
        assert type(found.inputs[0]) is torch.Tensor

    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
    def test_floats_become_float32(self, dtype: torch.dtype) -> None:
        found = _reduced(lambda x: x.sin(), torch.randn(4, dtype=dtype), fails=lambda g: True)
        assert found.current.inputs[0].dtype == torch.float32

    def test_special_tensors_become_plain_ones(self) -> None:
        for special in (
            torch._efficientzerotensor(3),
            torch.eye(3).to_sparse(),
            torch.quantize_per_tensor(torch.randn(3), 0.1, 2, torch.quint8),
            torch.randn(2, 2).to_mkldnn(),
            torch.randn(3, dtype=torch.complex64).conj(),
        ):
            found = _reduced(lambda x: (x,), special, fails=lambda g: True).current
            value = found.inputs[0]
            assert value.layout is torch.strided and not value.is_quantized
            assert not value._is_zerotensor() and not value.is_conj()

    def test_a_view_of_much_memory_gets_its_own(self) -> None:
        x = torch.randn(1000)[500:516]
        found = _reduced(lambda x: x.sin(), x, fails=lambda g: g.inputs[0].numel() == 16).current
        assert found.inputs[0].untyped_storage().nbytes() == 64


class TestKept:
    def test_a_zero_tensor(self) -> None:
        found = _reduced(
            lambda x: x.exp(),
            torch._efficientzerotensor(4, 12),
            fails=lambda g: g.inputs[0]._is_zerotensor(),
        ).current
        assert found.inputs[0].shape == (1,)

    def test_a_sparse_layout(self) -> None:
        found = _reduced(
            lambda x: x.to_dense(),
            torch.eye(6).to_sparse(),
            fails=lambda g: g.inputs[0].layout is torch.sparse_coo,
        ).current
        assert found.inputs[0].shape[-1] == 1

    def test_an_order_of_strides(self) -> None:
        x = torch.randn(2, 4, 8, 8).to(memory_format=torch.channels_last)

        def fails(graph: BoundGraph) -> bool:
            value = graph.inputs[0]
            return value.dim() == 4 and value.stride(1) == 1 and not value.is_contiguous()

        found = _reduced(lambda x: torch.cat([x, x], 1), x, fails=fails).current
        assert found.inputs[0].numel() <= 8 and not found.inputs[0].any()

    def test_an_expanded_axis(self) -> None:
        x = torch.randn(4, 1).expand(4, 6)
        found = _reduced(lambda x: x + 1, x, fails=lambda g: g.inputs[0].stride()[-1:] == (0,))
        assert found.current.inputs[0].numel() <= 2

    def test_a_gradient(self) -> None:
        x = torch.randn(4, requires_grad=True)
        found = _reduced(lambda x: x.sin(), x, fails=lambda g: g.inputs[0].requires_grad).current
        assert found.inputs[0].is_leaf and found.inputs[0].shape == (1,)

    def test_a_result_of_other_calls_that_requires_grad(self) -> None:
        x = torch.randn(4, requires_grad=True).clone()
        found = _reduced(lambda x: x.relu_(), x, fails=lambda g: g.inputs[0].requires_grad).current
        assert found.inputs[0].shape == (1,) and not found.inputs[0].is_leaf

    def test_a_dtype(self) -> None:
        x = torch.randn(4, dtype=torch.float64)
        found = _reduced(lambda x: x.sin(), x, fails=lambda g: g.inputs[0].dtype == torch.float64)
        assert (
            found.current.inputs[0].dtype == torch.float64 and found.current.inputs[0].numel() == 1
        )

    def test_one_tensor_that_is_passed_twice(self) -> None:
        x = torch.randn(4)
        found = _reduced(lambda x, y: x + y, x, x, fails=lambda g: g.inputs[0] is g.inputs[1])
        assert found.current.inputs[0].shape == (1,)

    def test_the_device(self) -> None:
        x = torch.empty(4, 5, device="meta")
        found = _reduced(lambda x: x.sin(), x, fails=lambda g: True).current
        assert found.inputs[0].device.type == "meta" and found.inputs[0].shape == (1,)


class TestSizes:
    def test_as_many_elements_as_a_vector_has(self) -> None:
        found = _reduced(
            lambda x, y: torch.remainder(x, y),
            torch.arange(1.0, 101.0),
            torch.full((100,), float("inf")),
            fails=lambda g: _output(g).numel() >= 16 and g.inputs[1].isinf().any(),
        )
        assert [len(value) for value in found.current.inputs] in ([1, 16], [16, 1], [16, 16])
        assert found.oracle.counts.candidates <= 20

    def test_sizes_that_belong_together(self) -> None:
        def function(x: Any, weight: Any) -> Any:
            return (x @ weight).relu()

        inputs = (torch.randn(7, 64), torch.randn(64, 48))
        found = _reduced(function, *inputs, fails=lambda g: g.inputs[1].shape[0] > 1).current
        assert [tuple(v.shape) for v in found.inputs] in ([(1, 2), (2, 1)], [(2,), (2, 1)])

    def test_sizes_in_literals_follow(self) -> None:
        def function(x: Any, weight: Any, bias: Any) -> Any:
            y = torch.nn.functional.linear(x, weight, bias)
            return y.reshape(2, 5, 3, 4, 8).relu()

        inputs = (torch.randn(2, 5, 32), torch.randn(96, 32), torch.randn(96))
        found = _reduced(function, *inputs, fails=lambda g: _output(g).sum() > 2).current
        assert sum(value.numel() for value in found.inputs) <= 10

    def test_the_shape_of_a_view_follows(self) -> None:
        found = _reduced(
            lambda x: x.view(6, 20, 4).sum(-1),
            torch.randn(120, 4),
            fails=lambda g: _output(g).dim() == 2,
        ).current
        assert found.inputs[0].numel() == 1

    @pytest.mark.compiles
    def test_symbolic_sizes_follow(self) -> None:
        graph = capture_graphs(
            lambda x: x.reshape(x.shape[0] * x.shape[1]), torch.randn(6, 8), dynamic=True
        )
        found = _reduced(graph, fails=lambda g: any(type(v) is int for v in g.inputs)).current
        assert all(v.numel() == 1 for v in found.inputs if isinstance(v, torch.Tensor))

    def test_constants_shrink_too(self) -> None:
        class Module(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("table", torch.randn(32))

            def forward(self, x: Any) -> Any:
                return x + self.table

        found = _reduced(Module(), torch.randn(4, 32), fails=lambda g: True).current
        assert all(value.numel() == 1 for value in found.inputs) and not found.constants


class TestElements:
    def test_a_nan_stays(self) -> None:
        x = torch.linspace(-2, 2, 32)
        x[13] = float("nan")
        found = _reduced(
            lambda x: torch.nn.functional.softshrink(x, 0.5),
            x,
            fails=lambda g: _output(g).isnan().any(),
        ).current
        assert found.inputs[0].shape == (1,) and found.inputs[0].isnan().all()

    def test_one_nan_among_others(self) -> None:
        x = torch.randn(32)
        x[13] = float("nan")
        found = _reduced(
            lambda x: x.sin(),
            x,
            fails=lambda g: g.inputs[0].isnan().any() and not g.inputs[0].isnan().all(),
        ).current
        assert sorted(found.inputs[0].nan_to_num(7.0).tolist()) == [1.0, 7.0]

    def test_one_special_element_is_still_there_when_smaller(self) -> None:
        x = torch.randn(6, 40)
        x[4, 33] = float("inf")
        found = _reduced(
            lambda x: x.sin(),
            x,
            fails=lambda g: (
                g.inputs[0].isinf().any()
                and g.inputs[0].dim() == 2
                and (g.inputs[0].abs() > 1.5).any()
            ),
        ).current
        assert found.inputs[0].numel() == 1

    def test_a_large_number_stays(self) -> None:
        x = torch.full((4, 4), 3e38)
        found = _reduced(lambda x: x * 2, x, fails=lambda g: _output(g).isinf().any()).current
        assert found.inputs[0].tolist() == [pytest.approx(3e38, rel=1e-6)]

    def test_elements_that_differ(self) -> None:
        found = _reduced(
            lambda x: x.sin(),
            torch.randn(50),
            fails=lambda g: len(g.inputs[0].unique()) > 3,
        ).current
        assert torch.equal(found.inputs[0].reshape(-1), torch.arange(4.0))

    def test_indices_stay_valid(self) -> None:
        found = _reduced(
            lambda table, at: table[at],
            torch.randn(10, 4),
            torch.tensor([3, 9, 1]),
            fails=lambda g: g.inputs[1].dtype == torch.int64,
        ).current
        assert found.inputs[1].tolist() == [0]

    def test_few_digits_where_nothing_else_helps(self) -> None:
        x = torch.tensor([0.123456, -1.98765])
        found = _reduced(
            lambda x: x * 1,
            x,
            fails=lambda g: (
                torch.allclose(_output(g), x, atol=0.02, rtol=0) if len(x) == 2 else False
            ),
        ).current
        assert [f"{value:.6g}" for value in found.inputs[0].tolist()] == ["0.12", "-2"]


@pytest.mark.compiles
@settings(deadline=None, max_examples=40)
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    least=st.integers(1, 20),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64]),
    turned=st.booleans(),
)
def test_it_ends_and_what_is_left_fails(
    shape: list[int], least: int, dtype: torch.dtype, turned: bool
) -> None:
    x = torch.randn(shape).to(dtype)
    x = x.transpose(0, -1) if turned else x

    def fails(graph: BoundGraph) -> bool:
        return graph.inputs[0].numel() >= min(least, x.numel())

    found = _reduced(lambda x: x.clone(), x, fails=fails)
    value = found.current.inputs[0]
    assert not value.any() and value.is_contiguous() and found.oracle.counts.candidates <= 40
    if least == 1:
        assert value.numel() == 1
