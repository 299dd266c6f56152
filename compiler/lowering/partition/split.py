"""Split of a joint graph by a plan, its peak memory, and a partitioner for AOTAutograd."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch.fx import GraphModule, Node

from fullgraph.compiler.lowering.cost import peak_memory
from fullgraph.compiler.lowering.partition.plan import PartitionPlan, Policy, plan_partition
from fullgraph.compiler.private import is_mutating_op, is_tangent, split_joint_graph

Modules = tuple[GraphModule, GraphModule]


def partition(
    joint_module: GraphModule,
    joint_inputs: Sequence[object] | None = None,
    *,
    num_fwd_outputs: int,
    policy: Policy = "min_cut",
    memory_budget: int | None = None,
    **options: object,
) -> Modules:
    """Return a joint graph as forward and backward, as AOTAutograd's `partition_fn` does.

    The arguments of torch's own partitioners are accepted: inputs are read from `meta["val"]`, and
    `options`, such as `static_lifetime_input_indices`, are not needed. See `plan_partition` for
    `policy`, `memory_budget` and errors.
    """
    plan = plan_partition(joint_module, num_fwd_outputs, policy, memory_budget)
    return split(joint_module, plan, num_fwd_outputs)


def split(joint_module: GraphModule, plan: PartitionPlan, num_fwd_outputs: int) -> Modules:
    """Return the forward and the backward of a joint graph by the plan that was made for it.

    The forward returns its outputs, then what it saves; the backward takes that and the tangents,
    in the order of AOTAutograd's runtime. It computes a node again just before its first use.
    """
    forward, backward = split_joint_graph(
        joint_module, plan.saved, plan.saved_sizes, num_fwd_outputs
    )
    _delay_recomputation(backward)
    return forward, backward


def _delay_recomputation(backward: GraphModule) -> None:
    """Move each node that depends on no tangent to its first use, so that its value lives less."""
    late: set[Node] = set()
    for node in backward.graph.nodes:
        if is_tangent(node) or not late.isdisjoint(node.all_input_nodes):
            late.add(node)
    for node in reversed(list(backward.graph.nodes)):
        if node.op != "call_function" or node in late or not node.users:
            continue
        if not is_mutating_op(node.target):
            min(node.users).prepend(node)
    backward.recompile()


@dataclass(frozen=True)
class PartitionMemory:
    """Estimated bytes that a partition needs beyond its inputs, while its kernels are fused."""

    saved: int
    """Bytes that live from the forward to the backward."""
    forward_peak: int
    backward_peak: int
    """The peak of the backward, with the saved bytes: they count until it ends."""

    @property
    def peak(self) -> int:
        """The larger of both peaks."""
        return max(self.forward_peak, self.backward_peak)


def partition_memory(
    plan: PartitionPlan, forward: GraphModule, backward: GraphModule
) -> PartitionMemory:
    """Return the estimated memory of a forward and a backward that were split by `plan`."""
    saved = plan.saved_bytes
    return PartitionMemory(saved, peak_memory(forward), saved + peak_memory(backward))
