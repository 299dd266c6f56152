"""Inlining of the bodies of higher-order operators into the graph that calls them."""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fullgraph.compiler.private import tree_leaves
from fullgraph.minifier.graphs.bound_graph import BoundGraph

_RUNS_BODY = {
    *("wrap", "invoke_subgraph", "strict_mode", "hints_wrapper", "dynamo_bypassing_wrapper"),
    *("tag_activation_checkpoint", "wrap_activation_checkpoint"),
    *("wrap_with_autocast", "wrap_with_set_grad_enabled"),
}
"""Higher-order operators that call their body once with the operands and return its results."""


def inlinable_calls(graph: BoundGraph) -> list[Node]:
    """Return the calls that can be replaced by the graph they run: checkpoints, regions, `cond`."""
    return [node for node in graph.calls if _body_and_operands(graph, node) is not None]


def inline_calls(graph: BoundGraph, wanted: Collection[Node]) -> BoundGraph:
    """Return the graph with the calls `wanted` replaced by their bodies.

    A `cond` is replaced by the branch that it took in the eager run.
    """
    new = torch.fx.Graph()
    names: dict[Node, Any] = {}
    for node in graph.module.graph.nodes:
        source = node.args[0] if node.target is operator.getitem else None
        body = _body_and_operands(graph, node) if node in wanted else None
        if body is not None:
            names[node] = _copy_body(graph, new, body[0], [names.get(o, o) for o in body[1]])
        elif isinstance(source, Node) and isinstance(names[source], list | tuple):
            names[node] = names[source][node.args[1]]
        else:
            names[node] = new.node_copy(node, names.__getitem__)
    new.eliminate_dead_code(lambda node: node.op != "get_attr")
    return BoundGraph(GraphModule(graph.module, new), graph.inputs)


def _body_and_operands(graph: BoundGraph, node: Node) -> tuple[Node, list[Any]] | None:
    """Return the `get_attr` node of a call's body, and the operands that the body gets.

    None if the call cannot be replaced by its body.
    """
    name = str(getattr(node.target, "__name__", ""))
    parts = [arg for arg in node.args if isinstance(arg, Node) and _graph_module_of(graph, arg)]
    if node.op != "call_function" or not parts:
        return None
    if name == "cond" and len(parts) == 2:
        taken = node.args[0]
        if isinstance(taken, Node):
            taken = graph.values().seen_by(taken, node)
        part = parts[0] if bool(taken) else parts[1]
    elif name in _RUNS_BODY:
        part = parts[0]
    else:
        return None
    module = _graph_module_of(graph, part)
    after = tree_leaves(node.args[node.args.index(parts[-1]) + 1 :])
    operands = [operand for operand in after if not isinstance(operand, str)]
    if module is None or len(operands) != len(_placeholders_of(module)):
        return None
    return part, operands


def _copy_body(graph: BoundGraph, new: torch.fx.Graph, part: Node, operands: list[Any]) -> object:
    """Copy the nodes of a body into the graph `new`, and return the result of the copy.

    `part` is the `get_attr` node of the body in `graph`; the `operands`, nodes of `new`, replace
    its placeholders.
    """
    module = _graph_module_of(graph, part)
    assert module is not None
    inner: dict[Node, Any] = dict(zip(_placeholders_of(module), operands, strict=True))
    for node in module.graph.nodes:
        if node.op == "output":
            return torch.fx.node.map_arg(node.args[0], inner.__getitem__)
        if node.op != "placeholder":
            inner[node] = new.node_copy(node, inner.__getitem__)
            if node.op in ("get_attr", "call_module"):
                inner[node].target = f"{part.target}.{node.target}"
    raise AssertionError("a graph ends with its output")


def _graph_module_of(graph: BoundGraph, node: Node) -> GraphModule | None:
    """Return the graph module that a `get_attr` node refers to; None for other nodes."""
    if node.op != "get_attr":
        return None
    thing: Any = graph.module
    for name in str(node.target).split("."):
        thing = getattr(thing, name)
    return thing if isinstance(thing, GraphModule) else None


def _placeholders_of(module: GraphModule) -> list[Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]
