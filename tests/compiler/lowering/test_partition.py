"""Joint graphs split into forward and backward: gradients, memory, and what is never repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._inductor.decomposition import select_decomp_table
from torch.utils.checkpoint import checkpoint

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.lowering.partition import (
    PartitionMemory,
    PartitionPlan,
    Policy,
    partition_memory,
    plan_partition,
    split,
)
from fullgraph.compiler.lowering.prims import decompositions
from fullgraph.compiler.private import is_random_op
from tests.compiler.lowering.test_prims import tiny_models

pytestmark = pytest.mark.compiles
POLICIES: tuple[Policy, ...] = ("save_all", "min_cut", "recompute_all")
Split = tuple[PartitionPlan, torch.fx.GraphModule, torch.fx.GraphModule]


class Compiled:
    """A function compiled by AOTAutograd with our partition; both halves run in eager."""

    def __init__(
        self,
        function: Callable[..., Any],
        policy: Policy = "min_cut",
        budget: int | None = None,
        table: Any = None,
        **options: Any,
    ) -> None:
        self.splits: list[Split] = []
        self._policy, self._budget = policy, budget
        backend = aot_autograd(
            fw_compiler=lambda module, inputs: make_boxed_func(module.forward),
            bw_compiler=lambda module, inputs: make_boxed_func(module.forward),
            partition_fn=self._partition,
            decompositions=dict(table or decompositions()),
        )
        torch.compiler.reset()
        self._call = torch.compile(function, backend=backend, fullgraph=True, **options)

    def _partition(self, joint: Any, inputs: Any, *, num_fwd_outputs: int, **rest: Any) -> Any:
        plan = plan_partition(joint, num_fwd_outputs, self._policy, self._budget)
        forward, backward = split(joint, plan, num_fwd_outputs)
        self.splits.append((plan, forward, backward))
        return forward, backward

    def __call__(self, *inputs: Any) -> Any:
        return self._call(*inputs)

    @property
    def plan(self) -> PartitionPlan:
        return self.splits[0][0]

    @property
    def memory(self) -> PartitionMemory:
        return partition_memory(*self.splits[0])


def gradients(call: Callable[..., Any], inputs: Sequence[Any], leaves: Sequence[Tensor]) -> Any:
    """Return the gradients of the square sum of a call's first result, from a fixed seed."""
    torch.manual_seed(0)
    result = call(*inputs)
    result = result if isinstance(result, Tensor) else next(iter(result.values()))
    return torch.autograd.grad(result.square().sum(), leaves, materialize_grads=True)


@pytest.mark.parametrize("name", ["bert", "vit", "resnet"])
def test_gradients_are_eagers_and_saved_memory_falls(name: str) -> None:
    model, x = tiny_models()[name]()
    model.double().train()
    x = x.double() if x.is_floating_point() else x
    leaves = list(model.parameters())
    expected = gradients(model, [x], leaves)
    memory = []
    for policy in POLICIES:
        compiled = Compiled(model, policy)
        torch.testing.assert_close(gradients(compiled, [x], leaves), expected)
        memory.append(compiled.memory)
    assert memory[0].saved >= memory[1].saved > memory[2].saved
    assert memory[0].peak >= memory[1].peak
    budget = (memory[1].saved + memory[2].saved) // 2
    compiled = Compiled(model, budget=budget)
    torch.testing.assert_close(gradients(compiled, [x], leaves), expected)
    assert memory[2].saved <= compiled.plan.saved_bytes <= budget


def mlp(x: Tensor, w: Tensor) -> Tensor:
    hidden = (x @ w).tanh().sigmoid().sin().cos()
    return (F.dropout(hidden, 0.3) * hidden).exp().sum(1)


@pytest.fixture
def weights() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(8, 6), torch.randn(6, 5, requires_grad=True)


def test_pointwise_operators_are_repeated_and_random_ones_never(
    weights: tuple[Tensor, Tensor],
) -> None:
    expected = gradients(mlp, weights, weights[1:])
    saved = []
    for policy in POLICIES:
        compiled = Compiled(mlp, policy)
        torch.testing.assert_close(gradients(compiled, weights, weights[1:]), expected)
        _, forward, backward = compiled.splits[0]
        assert any(is_random_op(node.target) for node in forward.graph.nodes)
        assert not any(is_random_op(node.target) for node in backward.graph.nodes)
        saved.append(compiled.plan.saved_bytes)
    assert saved[0] > saved[1] >= saved[2]


def test_nothing_is_computed_again_from_an_input_that_is_mutated() -> None:
    def step(x: Tensor, w: Tensor) -> Tensor:
        y = (x * 2).tanh() * w
        x.add_(1)
        return y

    w = torch.randn(4, requires_grad=True)
    expected = gradients(step, [torch.arange(4.0), w], [w])
    for policy in POLICIES:
        compiled = Compiled(step, policy)
        x = torch.arange(4.0)
        torch.testing.assert_close(gradients(compiled, [x, w], [w]), expected)
        assert x[0] == 1
        inputs = [node.name for node in compiled.plan.saved if node.op == "placeholder"]
        assert not inputs


def test_a_checkpointed_region_is_computed_again(weights: tuple[Tensor, Tensor]) -> None:
    def region(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).sin().cumsum(1)

    def step(x: Tensor, w: Tensor) -> Tensor:
        return checkpoint(region, x, w, use_reentrant=False).exp()

    compiled = Compiled(step, "save_all")
    expected = gradients(step, weights, weights[1:])
    torch.testing.assert_close(gradients(compiled, weights, weights[1:]), expected)
    assert "aten.mm.default" in {str(node.target) for node in compiled.plan.recomputed}


def test_symbolic_sizes_reach_the_backward(weights: tuple[Tensor, Tensor]) -> None:
    def step(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).relu().mean(0) * x.shape[0]

    compiled = Compiled(step, dynamic=True)
    for rows in (8, 7):
        inputs = (weights[0][:rows], weights[1])
        expected = gradients(step, inputs, weights[1:])
        torch.testing.assert_close(gradients(compiled, inputs, weights[1:]), expected)
    assert compiled.plan.saved_sizes


def test_it_splits_graphs_of_inductors_operators(weights: tuple[Tensor, Tensor]) -> None:
    compiled = Compiled(mlp, "min_cut", table=select_decomp_table())
    gradients(compiled, weights, weights[1:])
    assert compiled.plan.recomputed and compiled.splits[0][2].graph.find_nodes(op="placeholder")


def test_a_budget_that_cannot_be_met_is_an_error(weights: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(Exception) as raised:
        gradients(Compiled(mlp, budget=1), weights, weights[1:])
    assert isinstance(raised.value, FullgraphError) or "memory_budget" in str(raised.value)
