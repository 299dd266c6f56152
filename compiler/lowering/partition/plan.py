"""Choice of the values that a forward saves for the backward: a minimum cut of the joint graph.

The network has two vertices for each node of the forward, joined by an edge that costs the bytes of
the node's value; to cut it is to save the value. Edges from a node to its users cannot be cut, nor
those from the source to a node that is not computed again, nor from what the backward reads to the
sink. So each cut leaves the backward with all that it needs, from saved values and repeated nodes.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import networkx as nx
import torch
from torch.fx import GraphModule, Node
from torch.utils.checkpoint import CheckpointPolicy

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.lowering.cost import kind_of
from fullgraph.compiler.lowering.ir import HEAVY
from fullgraph.compiler.lowering.prims import (
    ExternReason,
    canonical_kind,
    extern_reason,
    operator_name,
)
from fullgraph.compiler.private import (
    example_of,
    hint_of_symbol,
    is_collective,
    is_marked_backward,
    is_mutating_op,
    is_random_op,
    is_tangent,
    is_view_op,
    mutated_inputs,
    tensors_in,
)

Repeat = Literal["free", "cheap", "costly", "never"]
"""What it costs to compute a node again in the backward.

- "free": views, sizes, one result of several, constants
- "cheap": pointwise for the cost model: fused into the kernels of the backward that read it
- "costly": reductions, scatters, extern operators
- "never": random, mutating, data-dependent and higher-order operators, collectives, and inputs
"""
UNKNOWN_SIZE = 4096
"""Number of elements assumed for a tensor whose size depends on data."""
Policy = Literal["save_all", "min_cut", "recompute_all"]
"""Which nodes the backward may compute again.

None ("save_all"), pointwise ones that fuse into its kernels ("min_cut"), or all that are neither
random, mutating, data-dependent nor collective ("recompute_all").
"""
_REPEATED: dict[Policy, frozenset[Repeat]] = {
    "save_all": frozenset({"free"}),
    "min_cut": frozenset({"free", "cheap"}),
    "recompute_all": frozenset({"free", "cheap", "costly"}),
}
_NEVER: tuple[ExternReason, ...] = ("random numbers", "data-dependent size", "custom operator")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_RECOMPUTE = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


@dataclass(frozen=True)
class JointGraph:
    """The nodes of a joint graph that its forward can compute, and which inputs are mutated."""

    forward: dict[Node, Repeat]
    """Nodes that do not depend on tangents, in order."""
    gradients: frozenset[Node]
    """Nodes that the backward returns."""
    mutated: frozenset[Node]
    """Inputs that are updated in place: after the forward they hold other values."""

    def backward_users(self, node: Node) -> list[Node]:
        """Return the nodes of the backward that read a node, and the output if it returns it."""
        users = [user for user in node.users if user not in self.forward]
        return [user for user in users if user.op != "output" or node in self.gradients]


def analyze(module: GraphModule, num_fwd_outputs: int) -> JointGraph:
    """Return which nodes of a joint graph belong to the forward.

    The forward's outputs are the first `num_fwd_outputs` ones. A node that AOTAutograd traced in
    the backward stays there, even if it depends on no tangent.
    """
    (outputs,) = module.graph.output_node().args
    assert isinstance(outputs, list | tuple)
    gradients = frozenset(one for one in outputs[num_fwd_outputs:] if isinstance(one, Node))
    stack = [one for one in outputs[:num_fwd_outputs] if isinstance(one, Node)]
    needed: set[Node] = set()
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack += node.all_input_nodes
    forward: dict[Node, Repeat] = {}
    for node in module.graph.nodes:
        is_backward = is_tangent(node) or (node not in needed and is_marked_backward(node))
        if node.op == "output" or is_backward:
            continue
        if all(one in forward for one in node.all_input_nodes):
            forward[node] = _cost_to_repeat(node)
    return JointGraph(forward, gradients, frozenset(mutated_inputs(module)))


def is_size(node: Node) -> bool:
    """Return whether a node is a symbolic number, not a tensor."""
    return isinstance(example_of(node), torch.SymInt | torch.SymFloat | torch.SymBool)


def bytes_of(node: Node) -> int:
    """Return the bytes of a node's tensors, by the hints of symbolic sizes."""
    return sum(_count(tensor) * tensor.element_size() for tensor in tensors_in(example_of(node)))


def _count(tensor: torch.Tensor) -> int:
    """Return the number of elements of a fake tensor."""
    count = tensor.numel()
    hint = count if isinstance(count, int) else hint_of_symbol(count)
    return UNKNOWN_SIZE if hint is None else int(hint)


def _cost_to_repeat(node: Node) -> Repeat:
    """Return what it costs to compute a node again."""
    if node.op == "get_attr":
        return "free"
    if node.op != "call_function":
        return "never"
    if node.target is operator.getitem or is_view_op(node.target) or is_size(node):
        return "free"
    if not isinstance(node.target, torch._ops.OpOverload):
        return "never"
    reason, kind = extern_reason(node), canonical_kind(node.target)
    is_tied = is_random_op(node.target) or is_mutating_op(node.target) or is_collective(node.target)
    if is_tied or reason in _NEVER or kind == "assertion":
        return "never"
    if node.meta.get("recompute") is CheckpointPolicy.MUST_SAVE:
        return "never"
    if kind == "creation":
        return "free"
    return "cheap" if kind_of(node.target) == "pointwise" and reason is None else "costly"


@dataclass(frozen=True)
class PartitionPlan:
    """Which values of a joint graph the forward saves for the backward."""

    policy: Policy
    saved: tuple[Node, ...]
    """Tensors, among them inputs, in the order of the joint graph."""
    saved_sizes: tuple[Node, ...]
    """Symbolic sizes."""
    recomputed: tuple[Node, ...]
    """Nodes that the backward computes again, without views and sizes."""
    saved_bytes: int
    """Bytes of the saved tensors that are not inputs."""

    def __str__(self) -> str:
        names = ", ".join(f"{node.name} ({bytes_of(node)} B)" for node in self.saved)
        again = ", ".join(node.name for node in self.recomputed)
        return (
            f"{self.policy}: saves {self.saved_bytes} B: {names}\nrecomputes: {again or 'nothing'}"
        )


def plan_partition(
    module: GraphModule,
    num_fwd_outputs: int,
    policy: Policy = "min_cut",
    memory_budget: int | None = None,
) -> PartitionPlan:
    """Return which values of a joint graph to save for the backward.

    `memory_budget`, in bytes, limits the saved tensors that are not inputs, and replaces `policy`:
    the plan then computes as little as possible again. It starts from saving all, then repeats
    pointwise nodes, then costly ones, those first that free the most bytes. Nodes need examples in
    `meta["val"]`. Raises FullgraphError if even `recompute_all` saves more than the budget.
    """
    joint = analyze(module, num_fwd_outputs)
    if memory_budget is None:
        return _cut(joint, policy, _may_repeat(joint, policy))
    policies: tuple[Policy, ...] = ("save_all", "min_cut")
    for policy in policies:
        plan = _cut(joint, policy, _may_repeat(joint, policy))
        if plan.saved_bytes <= memory_budget:
            return plan
    cheap, every = _may_repeat(joint, "min_cut"), _may_repeat(joint, "recompute_all")
    costly = [node for node in joint.forward if node in every - cheap]
    costly.sort(key=bytes_of, reverse=True)

    def repeat(count: int) -> PartitionPlan:
        """Return the plan that may repeat the first `count` costly nodes."""
        return _cut(joint, "recompute_all", {*cheap, *costly[:count]})

    counts = range(len(costly))
    plan = repeat(
        bisect_left(counts, True, key=lambda count: repeat(count).saved_bytes <= memory_budget)
    )
    if plan.saved_bytes > memory_budget:
        raise FullgraphError(
            f"The backward needs {plan.saved_bytes} bytes saved, and the budget is "
            f"{memory_budget}: raise `memory_budget`, or give smaller inputs."
        )
    return plan


def _may_repeat(joint: JointGraph, policy: Policy) -> set[Node]:
    """Return the nodes of the forward that a policy lets the backward compute again.

    A pointwise node is not repeated by "min_cut" if an extern operator of the backward reads it: it
    would be written to memory a second time.
    """
    found = {node for node, repeat in joint.forward.items() if repeat in _REPEATED[policy]}
    found -= _compared(joint)
    if policy == "min_cut":
        found -= {n for n in found if joint.forward[n] == "cheap" and _is_stored(joint, n)}
    marked = {node for node in joint.forward if node.meta.get("recompute") in _RECOMPUTE}
    return found | {node for node in marked if joint.forward[node] != "never"}


def _compared(joint: JointGraph) -> set[Node]:
    """Return the nodes whose recomputation a comparison of the backward may tell from the first.

    `x.log1p().amin()` has a gradient where `x.log1p() == saved minimum`, and a loop that runs in
    vectors rounds a transcendental function otherwise than one that does not. Such an operand is
    saved, and so is the result of such a comparison in the forward.
    """
    rounded: set[Node] = set()
    found: set[Node] = set()
    for node, repeat in joint.forward.items():
        is_repeated = repeat in ("free", "cheap") and not rounded.isdisjoint(node.all_input_nodes)
        if is_repeated and operator_name(node.target) in _COMPARISONS:
            found.add(node)
        elif is_repeated or operator_name(node.target) in HEAVY:
            rounded.add(node)
    for node in rounded:
        users = {operator_name(user.target) for user in joint.backward_users(node)}
        if not users.isdisjoint(_COMPARISONS):
            while is_view_op(node.target):  # what it is a view of is saved
                node = node.all_input_nodes[0]
            found.add(node)
    return found


def _is_stored(joint: JointGraph, node: Node) -> bool:
    """Return whether an extern operator of the backward reads a node, or a view of it."""
    stack = [node]
    while stack:
        node = stack.pop()
        stack += [one for one in node.users if is_view_op(one.target) and one not in stack]
        if any(extern_reason(user) is not None for user in joint.backward_users(node)):
            return True
    return False


def _cut(joint: JointGraph, policy: Policy, repeatable: Collection[Node]) -> PartitionPlan:
    """Return the plan that saves the fewest bytes if only `repeatable` nodes are repeated."""
    most = 1 + sum(map(bytes_of, joint.forward))
    network: nx.DiGraph[object] = nx.DiGraph()
    network.add_nodes_from(("source", "sink"))
    for node in joint.forward:
        before, after = (node, "in"), (node, "out")
        cost = _cost_to_save(joint, node, most)
        network.add_edge(before, after, **({} if cost is None else {"capacity": cost}))
        if node not in repeatable:
            network.add_edge("source", before)
        for user in node.users:
            if user in joint.forward:
                network.add_edge(after, (user, "in"))
        if joint.backward_users(node):
            network.add_edge(after, "sink")
    _, (kept, _) = nx.minimum_cut(network, "source", "sink")
    cut = [n for n in joint.forward if (n, "in") in kept and (n, "out") not in kept]
    saved = tuple(node for node in cut if not is_size(node))
    return PartitionPlan(
        policy,
        saved,
        tuple(node for node in cut if is_size(node)),
        _recomputed(joint, set(cut)),
        sum(bytes_of(node) for node in saved if node.op != "placeholder"),
    )


def _cost_to_save(joint: JointGraph, node: Node, most: int) -> int | None:
    """Return what it costs to save a node, in bytes; None if it cannot be saved.

    An input costs nothing, because it exists anyhow, except one that is mutated. That costs `most`,
    as does a symbolic number that is not an integer: they are saved only if there is no other cut.
    A view is computed again from the value whose memory it shares.
    """
    example = example_of(node)
    if node in joint.mutated or isinstance(example, torch.SymFloat | torch.SymBool):
        return most
    if node.op == "placeholder":
        return 0
    if is_view_op(node.target) or not isinstance(example, torch.Tensor | torch.SymInt):
        return None
    return 1 if isinstance(example, torch.SymInt) else bytes_of(node)


def _recomputed(joint: JointGraph, saved: Collection[Node]) -> tuple[Node, ...]:
    """Return the nodes that the backward computes again, in order, without those that are free."""
    again: set[Node] = set()
    for node in reversed(joint.forward):
        is_needed = joint.backward_users(node) or not again.isdisjoint(node.users)
        if is_needed and node not in saved:
            again.add(node)
    return tuple(n for n in joint.forward if n in again and joint.forward[n] != "free")
