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
    for name in [node.name for node in problem.current.calls if not _is_inserted_by_torch(node)]:
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


def _is_inserted_by_torch(node: Node) -> bool:
    """Return whether torch, not the user, put the call `node` into the graph.

    Such a call switches a mode, as `_set_grad_enabled(False)` does, or enters a torch.func
    transform.
    """
    return is_mode_switch(node) or "functorch" in str(getattr(node.target, "__module__", ""))


def _call_named(graph: BoundGraph, name: str) -> Node | None:
    """Return the call whose node is called `name`, "relu_1"; None if the graph has none."""
    return next((node for node in graph.calls if node.name == name), None)


def _with_arguments(
    graph: BoundGraph, node: Node, choices: Iterator[Arguments]
) -> Iterator[BoundGraph]:
    """Yield copies of `graph` in which the call `node` has other arguments.

    `choices` are pairs (args, kwargs), one for each copy. Copies that cannot run are left out.
    """
    feasible = MetaCheck(graph)
    for choice in choices:
        with suppress(Inseparable):
            candidate = graph.subgraph(graph.calls, outputs=graph.outputs, arguments={node: choice})
            if feasible(candidate):
                yield candidate


def _fewer_arguments(node: Node) -> Iterator[Arguments]:
    """Yield versions of a call's (args, kwargs) with fewer arguments.

    For `f(x, 1, a=2, b=3)`: `f(x, 1)`, `f(x, 1, b=3)`, `f(x, 1, a=2)`, then `f(x, a=2, b=3)`.
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
    """Return how many positional arguments the function `target` requires; 1 if unknown."""
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
    """Return the paths of the literals in a call's arguments for which there are plainer ones.

    A path leads through the pair (args, kwargs): (0, 1) is the second positional argument.
    """
    return [
        path
        for path, value in leaf_paths((node.args, dict(node.kwargs)))
        if _simpler_literals(value)
    ]


def leaf_paths(tree: object, path: ArgumentPath = ()) -> Iterator[tuple[ArgumentPath, Any]]:
    """Yield (path, value) of each leaf of nested dicts, lists and tuples.

    `[1, {"a": 2}]` gives ((0,), 1) and ((1, "a"), 2). Each path begins with the given `path`.
    """
    if isinstance(tree, dict | list | tuple):
        for key, item in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from leaf_paths(item, (*path, key))
    else:
        yield path, tree


def _plainer_literals(node: Node, path: ArgumentPath) -> Iterator[Arguments]:
    """Yield the (args, kwargs) of a call with each plainer literal at `path`, the plainest first.

    For `f(x, 5)` with the 5 at `path`: `f(x, 0)`, then `f(x, 1)`.
    """
    whole = (node.args, dict(node.kwargs))
    value: Any = whole
    for step in path:
        value = value[step]
    for simpler in _simpler_literals(value):
        yield replace_leaf(whole, path, simpler)


def replace_leaf(tree: Any, path: ArgumentPath, new: object) -> Any:
    """Return a copy of nested dicts, lists and tuples with `new` in place of the leaf at `path`.

    `replace_leaf([1, {"a": 2}], (1, "a"), 3)` → `[1, {"a": 3}]`.
    """
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
    """Return the literals that are plainer than `value`, the plainest first: 5 → [0, 1].

    [] if there are none, and for anything but a bool, int or float.
    """
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
    """Return a key that sorts floats, the plainest first: (length of the literal, magnitude)."""
    return len(f"{value:g}" if value in (0.0, 1.0) else repr(value)), abs(value)
