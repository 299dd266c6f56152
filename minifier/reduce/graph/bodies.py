"""Reducer of the bodies of higher-order operators: loops, scans, branches.

A body keeps its inputs and outputs. Users of a removed call get one of the values from which it was
computed, with the same shape and dtype.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fullgraph.compiler.private import is_mode_switch
from fullgraph.minifier.graphs import BoundGraph
from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce.subsets import (
    split_by_weight,
)

BodyPath = tuple[str, ...]
"""Names of the attributes that lead to a body."""


def reduce_bodies(problem: Problem[BoundGraph]) -> None:
    """Remove calls from the bodies of loops, scans and conds while the graph fails.

    First many calls at a time are removed, then single calls.
    """
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
    """Yield (path, graph) of each body of a loop, scan or cond in `module`, nested ones included.

    A path has the names of attributes: ("cond_true_0",). The given `path` is that of `module`.
    """
    used = {str(node.target) for node in module.graph.nodes if node.op == "get_attr"}
    for name, child in module.named_children():
        if name in used and isinstance(child, GraphModule):
            yield (*path, name), child
            yield from _bodies(child, (*path, name))


def _removable_names(graph: BoundGraph, path: BodyPath) -> list[str]:
    """Return the names of the calls in the body at `path` that can be removed.

    One of a call's ancestors must have the same shape and dtype. [] if there is no such body.
    """
    body = dict(_bodies(graph.module)).get(path)
    if body is None:
        return []
    return [node.name for node in body.graph.nodes if _substitute(node, {node}) is not None]


def _without_body_calls(
    graph: BoundGraph, path: BodyPath, names: list[str]
) -> Iterator[BoundGraph]:
    """Yield `graph` without the calls `names` in the body at `path`.

    Users of a removed call get its nearest ancestor of the same shape and dtype. A call without
    such an ancestor stays; nothing is yielded if all stay.
    """
    body = dict(_bodies(graph.module))[path]
    removed = {node for node in body.graph.nodes if node.name in names}
    substitutes = {
        node: substitute
        for node in removed
        if (substitute := _substitute(node, removed)) is not None
    }
    if substitutes:
        yield BoundGraph(
            _with_body(graph.module, path, _replace_nodes(body, substitutes)), graph.inputs
        )


def _substitute(node: Node, removed: set[Node]) -> Node | None:
    """Return the node that can replace the call `node` where its result is used.

    It is the nearest ancestor that has the shape and dtype of the result and is not in `removed`.
    None if there is none, if nothing uses the result, or if `node` is no call of an operator.
    """
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


def _tensor_kind(node: Node) -> tuple[object, ...]:
    """Return the traced (shape, dtype, device) of a float or complex tensor; () for other values.

    Integers are excluded: a loop without its counter would not end.
    """
    value = node.meta.get("example_value", node.meta.get("val"))
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return ()
    return tuple(map(str, value.shape)), value.dtype, value.device


def _replace_nodes(body: GraphModule, substitutes: Mapping[Node, Node]) -> GraphModule:
    """Return a copy of a body in which users of each key of `substitutes` get its value instead.

    The keys are removed.
    """
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
    """Return a copy of `module` whose body at `path` is `new`; all other submodules are shared."""
    name, *rest = path
    copied = GraphModule(module, copy.deepcopy(module.graph))
    child = getattr(module, name)
    setattr(copied, name, _with_body(child, tuple(rest), new) if rest else new)
    return copied
