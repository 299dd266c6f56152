"""Reducer of the arguments of a graph's calls: fewer arguments, plainer literals."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from torch.fx import Node

from fullgraph.compiler.private import is_mode_switch
from fullgraph.minifier.graphs import Arguments, BoundGraph, Inseparable, MetaCheck
from fullgraph.minifier.oracle.problem import Problem

ArgumentPath = tuple[object, ...]
"""Keys and indices that lead to a leaf of a call's arguments."""


def simplify_arguments(problem: Problem[BoundGraph]) -> None:
    """Drop arguments and replace literals by None, False, 0 or 1, while the failure remains."""
    for name in [node.name for node in problem.current.calls if not _is_internal(node)]:
        while (node := _call_named(problem.current, name)) and problem.first(
            _with_arguments(problem.current, node, _fewer_arguments(node))
        ):
            pass
        tried: set[ArgumentPath] = set()
        while (node := _call_named(problem.current, name)) and (
            path := next((p for p in _literal_paths(node) if p not in tried), None)
        ):
            tried.add(path)
            problem.first(_with_arguments(problem.current, node, _plainer_literals(node, path)))


def _is_internal(node: Node) -> bool:
    """Return whether torch inserted a call: a mode switch, or a torch.func transform."""
    return is_mode_switch(node) or "functorch" in str(getattr(node.target, "__module__", ""))


def _call_named(graph: BoundGraph, name: str) -> Node | None:
    """Return the call with this name; None if the graph has none."""
    return next((node for node in graph.calls if node.name == name), None)


def _with_arguments(
    graph: BoundGraph, node: Node, choices: Iterator[Arguments]
) -> Iterator[BoundGraph]:
    """Yield the graph with `node` called with each choice of arguments, if it can run."""
    feasible = MetaCheck(graph)
    for choice in choices:
        with suppress(Inseparable):
            candidate = graph.subgraph(graph.calls, outputs=graph.outputs, arguments={node: choice})
            if feasible(candidate):
                yield candidate


def _fewer_arguments(node: Node) -> Iterator[Arguments]:
    """Yield versions of a call's arguments that have fewer of them.

    First without all keyword arguments, then without each one, then with only the first positional
    arguments.
    """
    named = dict(node.kwargs)
    if len(named) > 1:
        yield node.args, {}
    for name in named:
        yield node.args, {key: value for key, value in named.items() if key != name}
    fewest = max(1, _required_arguments(node.target))
    for count in range(fewest, len(node.args)):
        yield node.args[:count], named


def _required_arguments(target: Any) -> int:
    """Return how many positional arguments `target` requires; 1 if unknown."""
    if target is getattr:
        return 2
    schema = getattr(target, "_schema", None)
    if schema is not None:
        return sum(not (a.has_default_value() or a.kwarg_only) for a in schema.arguments)
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):  # a method's name; a function written in C++
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is p.empty for p in parameters)


def _literal_paths(node: Node) -> list[ArgumentPath]:
    """Return the paths of a call's literals that can be replaced by plainer ones."""
    return [
        path
        for path, value in leaf_paths((node.args, dict(node.kwargs)))
        if _simpler_literals(value)
    ]


def leaf_paths(tree: object, path: ArgumentPath = ()) -> Iterator[tuple[ArgumentPath, Any]]:
    """Yield the path and value of each leaf of a call's arguments."""
    if isinstance(tree, dict | list | tuple):
        for key, item in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from leaf_paths(item, (*path, key))
    else:
        yield path, tree


def _plainer_literals(node: Node, path: ArgumentPath) -> Iterator[Arguments]:
    """Yield the arguments of a call with each plainer literal at `path`, the plainest first."""
    whole = (node.args, dict(node.kwargs))
    value: Any = whole
    for step in path:
        value = value[step]
    for simpler in _simpler_literals(value):
        yield replace_leaf(whole, path, simpler)


def replace_leaf(tree: Any, path: ArgumentPath, new: object) -> Any:
    """Return a copy of a call's arguments with `new` at `path`."""
    if not path:
        return new
    step, *rest = path
    if isinstance(tree, dict):
        return {**tree, step: replace_leaf(tree[step], tuple(rest), new)}
    items = [
        replace_leaf(item, tuple(rest), new) if i == step else item for i, item in enumerate(tree)
    ]
    return type(tree)(items) if isinstance(tree, list) else tuple(items)


def _simpler_literals(value: object) -> list[object]:
    """Return literals that are plainer than `value`, the plainest first."""
    if value is True:
        return [False]
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, int):
        return [plain for plain in (0, 1) if abs(plain) < abs(value)]
    if isinstance(value, float) and value != value:
        return []
    if isinstance(value, float):
        near = [0.0, 1.0, *(float(f"{value:.{digits}g}") for digits in (1, 2))]
        return [plain for plain in dict.fromkeys(near) if _number_key(plain) < _number_key(value)]
    return []


def _number_key(value: float) -> tuple[int, float]:
    """Return the sort key of a float by plainness: the length of its text, then its magnitude."""
    return len(f"{value:g}" if value in (0.0, 1.0) else repr(value)), abs(value)
