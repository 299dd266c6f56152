"""Joint graphs of AOTAutograd: what they mark, and their split into forward and backward."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch._functorch import partitioners

Modules = tuple[torch.fx.GraphModule, torch.fx.GraphModule]


def is_tangent(node: torch.fx.Node) -> bool:
    """Return whether a placeholder exists only in the backward: a tangent or its random seed."""
    name = str(node.target)
    return node.op == "placeholder" and ("tangents" in name or name.startswith("bwd_"))


def is_marked_backward(node: torch.fx.Node) -> bool:
    """Return whether AOTAutograd traced a node in the backward."""
    return node.meta.get("partitioner_tag") in ("is_backward", "must_be_in_backward")


def is_view_op(target: object) -> bool:
    """Return whether the result of an operator shares memory with an operand, by its schema."""
    if not isinstance(target, torch._ops.OpOverload):
        return False
    aliases = [result.alias_info for result in target._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def mutated_inputs(module: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """Return the placeholders that the graph, or AOTAutograd after it, updates in place."""
    placeholders = module.graph.find_nodes(op="placeholder")
    by_input = {node.meta.get("desc"): node for node in placeholders if node.meta.get("desc")}
    found = {
        node.args[0]
        for node in module.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
    }
    for output in module.graph.output_node().meta.get("desc", ()):
        found.add(by_input.get(getattr(output, "mutated_input", None)))
    return {node for node in placeholders if node in found}


def split_joint_graph(
    module: torch.fx.GraphModule,
    saved: Sequence[torch.fx.Node],
    saved_sizes: Sequence[torch.fx.Node],
    num_fwd_outputs: int,
) -> Modules:
    """Return the forward, which also returns `saved` and `saved_sizes`, and the backward.

    The backward takes these and the tangents, and computes everything else that it needs. Their
    order is that of AOTAutograd's runtime. Values that the backward does not use are not saved.
    """
    forward, backward = partitioners._extract_fwd_bwd_modules(
        module, list(saved), saved_sym_nodes=list(saved_sizes), num_fwd_outputs=num_fwd_outputs
    )
    return forward, backward
