"""Reducing the bodies of higher-order operators that have to stay: loops, scans, branches.

What goes into a body, and what comes out, stays as it is: a call's users get one of the values of
the same kind that it was made of.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fullgraph.compiler.private import is_mode_switch
from fullgraph.minifier.graphs.bound_graph import BoundGraph
from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce.subsets import (
    split_by_weight,
)

BodyPath = tuple[str, ...]
"""The way to a body: names of attributes."""


def reduce_bodies(problem: Problem[BoundGraph]) -> None:
    """Take away the calls in bodies that can be missed, many at a time, then one by one."""
    for path in [path for path, _ in _bodies(problem.current.module)]:
        size = len(_removable_names(problem.current, path)) / 2
        while _removable_names(problem.current, path):
            names = _removable_names(problem.current, path)
            parts = split_by_weight(names, lambda _: 1.0, max(1, round(len(names) / max(1, size))))
            for part in list(parts)[::-1]:
                problem.first(_without_body_calls(problem.current, path, part))
            if size <= 1:
                break
            size /= 2


def _bodies(
    module: GraphModule, path: tuple[str, ...] = ()
) -> Iterator[tuple[BodyPath, GraphModule]]:
    """The bodies that a graph runs, each with the way to it, and those in them."""
    used = {str(node.target) for node in module.graph.nodes if node.op == "get_attr"}
    for name, child in module.named_children():
        if name in used and isinstance(child, GraphModule):
            yield (*path, name), child
            yield from _bodies(child, (*path, name))


def _removable_names(graph: BoundGraph, path: BodyPath) -> list[str]:
    """The calls in a body that something could stand for."""
    body = dict(_bodies(graph.module)).get(path)
    if body is None:
        return []
    return [node.name for node in body.graph.nodes if _substitute(node, {node}) is not None]


def _without_body_calls(
    graph: BoundGraph, path: BodyPath, names: list[str]
) -> Iterator[BoundGraph]:
    body = dict(_bodies(graph.module))[path]
    removed = {node for node in body.graph.nodes if node.name in names}
    substitutes = {
        node: substitute
        for node in removed
        if (substitute := _substitute(node, removed)) is not None
    }
    if substitutes:
        yield BoundGraph(_with_body(graph.module, path, _bypass(body, substitutes)), graph.inputs)


def _substitute(node: Node, removed: set[Node]) -> Node | None:
    """The nearest node of the same shape and dtype that a call is made of, and that is not gone."""
    if not node.op.startswith("call_") or is_mode_switch(node) or not node.users:
        return None
    front, seen = [node], {node}
    while front:
        front = [n for one in front for n in one.all_input_nodes if n not in seen]
        seen.update(front)
        for other in front:
            if other not in removed and _tensor_kind(other) == _tensor_kind(node) != ():
                return other
    return None


def _tensor_kind(node: Node) -> tuple[Any, ...]:
    """Shape, dtype and device, as the tracer saw them; () for what is no tensor, or one of
    integers: a loop without its counter would not end."""
    value = node.meta.get("example_value", node.meta.get("val"))
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return ()
    return tuple(map(str, value.shape)), value.dtype, value.device


def _bypass(body: GraphModule, substitutes: Mapping[Node, Node]) -> GraphModule:
    new = torch.fx.Graph()
    names: dict[Node, Any] = {}
    for node in body.graph.nodes:
        if node in substitutes:
            names[node] = names[substitutes[node]]
        else:
            names[node] = new.node_copy(node, names.__getitem__)
    new.eliminate_dead_code()
    return GraphModule(body, new)


def _with_body(module: GraphModule, path: BodyPath, new: GraphModule) -> GraphModule:
    """A copy of `module` with another body; what is in it besides is shared."""
    name, *rest = path
    build_runnable = GraphModule(module, copy.deepcopy(module.graph))
    child = getattr(module, name)
    setattr(build_runnable, name, _with_body(child, tuple(rest), new) if rest else new)
    return build_runnable
