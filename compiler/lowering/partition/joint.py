"""What a partition must know of a joint graph: the forward's nodes, and what may be repeated."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Literal

import torch
from torch.fx import GraphModule, Node
from torch.utils.checkpoint import CheckpointPolicy

from fullgraph.compiler.lowering.cost import kind_of
from fullgraph.compiler.lowering.prims import canonical_kind, extern_reason
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
    if is_tied or reason in ("random numbers", "data-dependent size") or kind == "assertion":
        return "never"
    if node.meta.get("recompute") is CheckpointPolicy.MUST_SAVE:
        return "never"
    if kind == "creation":
        return "free"
    return "cheap" if kind_of(node.target) == "pointwise" and reason is None else "costly"
