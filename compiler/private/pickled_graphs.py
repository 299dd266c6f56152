"""Graph modules as data for a pickle: nodes, attributes, and entries of this process's tables."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.graph import CodeGen
from torch.fx.node import map_aggregate, map_arg

from fullgraph.compiler.private.operator_names import (
    add_triton_constants,
    add_triton_kernel,
    triton_constants,
    triton_kernel,
)


class _NodeName(str):
    """Name of a node; stands for the node in the arguments of another one."""


_INDEX_READERS = {"kernel_idx": triton_kernel, "constant_args_idx": triton_constants}
"""Keyword arguments that are indices into a table of this process, with the table's reader."""
_INDEX_WRITERS = {"kernel_idx": add_triton_kernel, "constant_args_idx": add_triton_constants}


def graph_parts(module: GraphModule) -> tuple[object, ...]:
    """Return a graph module as a tuple of the arguments with which to call `rebuild_graph_module`.

    The module's own `__reduce__` would trace its code again.
    """
    nodes = module.graph.nodes
    paths = {str(node.target) for node in nodes if node.op in ("get_attr", "call_module")}
    heads = {path.partition(".")[0] for path in paths}
    codegen = module.graph._codegen
    hooks = [name for name in vars(module) if name.startswith(("_forward_", "_backward_"))]
    return (
        {name: getattr(module, name) for name in sorted(heads)},
        [_node_fields(node) for node in nodes],
        None if type(codegen) is CodeGen else codegen,
        {name: vars(module)[name] for name in ("training", *hooks)},
    )


def _node_fields(node: Node) -> tuple[object, ...]:
    """Return a node as plain data: name, operation, target, arguments, …

    In the arguments, the names of other nodes replace the nodes.
    """
    args, kwargs = map_arg((node.args, dict(node.kwargs)), lambda used: _NodeName(used.name))
    known = {
        name: look(cast(int, node.kwargs[name]))
        for name, look in _INDEX_READERS.items()
        if isinstance(node.target, torch._ops.HigherOrderOperator) and name in node.kwargs
    }
    custom = node.meta.get("custom")
    return node.name, node.op, node.target, args, dict(kwargs), node.type, known, custom


def rebuild_graph_module(
    attributes: dict[str, object], lines: list[tuple[Any, ...]], codegen: Any, state: dict[str, Any]
) -> GraphModule:
    """Return a graph module made from the arguments that `graph_parts` returned."""
    root = torch.nn.Module()
    for name, value in attributes.items():
        setattr(root, name, value)
    graph = Graph()
    nodes: dict[str, Node] = {}
    for name, op, target, args, kwargs, kind, known, custom in lines:
        args, kwargs = map_aggregate(
            (args, kwargs), lambda thing: nodes[thing] if isinstance(thing, _NodeName) else thing
        )
        kwargs = {**kwargs, **{key: _INDEX_WRITERS[key](thing) for key, thing in known.items()}}
        nodes[name] = graph.create_node(op, target, args, kwargs, name, kind)
        if custom is not None:
            nodes[name].meta["custom"] = custom
    if codegen is not None:
        graph.set_codegen(codegen)
    module = GraphModule(root, graph)
    vars(module).update(state)
    return module
