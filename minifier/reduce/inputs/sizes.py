"""Reducer of the sizes of inputs: each size shrinks in all places where it occurs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from fullgraph.minifier.graphs import BoundGraph, Inseparable, MetaCheck
from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce.graph.arguments import ArgumentPath, leaf_paths, replace_leaf
from fullgraph.minifier.reduce.inputs.tensors import crop, is_plain, with_autograd_state
from fullgraph.minifier.reduce.subsets import (
    find_smallest,
)

SIZES = (1, 2, 3, 4, *(2**power for power in range(3, 40)))
"""Sizes to try: a few elements, then whole SIMD vectors."""


_OF_AXES = {
    *("permute", "transpose", "movedim", "moveaxis", "swapaxes", "swapdims", "flip", "roll"),
    *("squeeze", "unsqueeze", "flatten", "cat", "stack", "softmax", "log_softmax", "_softmax"),
    *("sum", "mean", "std", "var", "amax", "amin", "all", "any", "norm", "logsumexp"),
}
"""Names of calls whose integer arguments are axes rather than sizes."""


@dataclass(frozen=True)
class InputAxis:
    """Place of a size: an axis of an input, or an input that is an integer (`axis` is None)."""

    input: int
    axis: int | None


@dataclass(frozen=True)
class CallLiteral:
    """Place of a size: an integer literal in a call's arguments."""

    call: str
    path: ArgumentPath
    listed: bool
    """Whether it is one of several integers, as in a shape."""


SizePlace = InputAxis | CallLiteral
SizeChange = Callable[[int], int]
"""Returns the new size for an old one."""


def shrink_sizes(problem: Problem[BoundGraph], *, repeated: bool = False) -> None:
    """Make sizes as small as the failure allows: all at once, then each size, then each axis.

    Then drop leading axes of size 1. Set `repeated` if an earlier run has tried this: then the
    sizes are not tried all at once, and a size stays unless the next smaller one fails, too.
    """
    graph = problem.current
    feasible = MetaCheck(graph)
    if not any(size > 1 for _, size in size_places(graph)):
        return
    for limit in () if repeated else (1, 2):
        if problem.first(_first_runnable(_resize_everywhere(graph, partial(min, limit)), feasible)):
            break
    for size in sorted(_sizes(problem.current)):
        _shrink_size(problem, size, repeated)
    _shrink_alone(problem)
    _drop_axes(problem)


def size_places(graph: BoundGraph) -> list[tuple[SizePlace, int]]:
    """Return each place of a size in a graph's inputs, with the size."""
    found: list[tuple[SizePlace, int]] = []
    for number, value in enumerate(graph.inputs):
        if isinstance(value, torch.Tensor):
            found += [(InputAxis(number, axis), length) for axis, length in enumerate(value.shape)]
        elif type(value) is int:
            found.append((InputAxis(number, None), value))
    return found


def _sizes(graph: BoundGraph) -> set[int]:
    """Return the sizes that can shrink: those of inputs, and literals that divide one of them."""
    own = {size for _, size in size_places(graph) if size > 1}
    listed = {size for place, size in _size_literals(graph) if place.listed}
    return own | {size for size in listed if any(whole % size == 0 for whole in own)}


def _size_literals(graph: BoundGraph) -> list[tuple[CallLiteral, int]]:
    """Return the integer literals in calls that may be sizes, with their values."""
    found = []
    for node in graph.calls:
        name = str(getattr(node.target, "__name__", node.target)).partition(".")[0]
        if name in _OF_AXES:
            continue
        numbers = [p for p in leaf_paths((node.args, dict(node.kwargs))) if type(p[1]) is int]
        several = node.op == "call_method" and sum(len(path) == 2 for path, _ in numbers) > 1
        for path, value in numbers:
            if value > 1:
                found.append((CallLiteral(node.name, path, several or len(path) > 2), value))
    return found


def _shrink_size(problem: Problem[BoundGraph], size: int, repeated: bool) -> None:
    """Replace one size by the smallest that fails, in all places.

    `repeated` is as in `shrink_sizes`.
    """
    graph = problem.current
    if size not in _sizes(graph):
        return
    feasible = MetaCheck(graph)
    targets = [target for target in SIZES if target < size]

    def candidates(index: int) -> Iterator[BoundGraph]:
        """Yield a graph with the size replaced by `targets[index]`."""
        new = targets[index]

        def same(old: int) -> int:
            """Return the new size for this size only."""
            return new if old == size else old

        def scaled(old: int) -> int:
            """Return the new size for this size and its multiples."""
            return old // size * new if old % size == 0 else old

        ways = (
            _resize_everywhere(graph, same),
            _resize_everywhere(graph, scaled),
            _resize_everywhere(graph, scaled, same),
        )
        yield from _first_runnable((candidate for way in ways for candidate in way), feasible)

    if repeated and not problem.first(candidates(len(targets) - 1)):
        return
    find_smallest(problem, 0, len(targets) - repeated, candidates, leap=1)


def _shrink_alone(problem: Problem[BoundGraph]) -> None:
    """Try size 1 for each axis by itself, leaving other axes of the same size as they are."""
    for place, _ in size_places(problem.current):
        graph = problem.current
        sizes = dict(size_places(graph))
        if sizes.get(place, 1) > 1:
            problem.first(_first_runnable(_resize(graph, {place: 1}), MetaCheck(graph)))


def _drop_axes(problem: Problem[BoundGraph]) -> None:
    """Drop leading axes of size 1 until no more can be dropped.

    Each time, all inputs are tried together and then each one alone. First all their leading axes
    of size 1 go, then only one.
    """
    while True:
        graph = problem.current
        flat = {number for number, value in enumerate(graph.inputs) if _first_ones(value)}
        groups = [flat, *({number} for number in flat)] if len(flat) > 1 else [flat]
        ways = [(group, most) for most in (99, 1) for group in groups if group]
        feasible = MetaCheck(graph)
        if not problem.first(filter(feasible, (_without_axes(graph, *way) for way in ways))):
            return


def _first_ones(value: object) -> int:
    """Return the number of leading axes of size 1, the last axis excluded.

    0 for a value that is no tensor, and for a tensor of a special layout.
    """
    if not isinstance(value, torch.Tensor) or not (is_plain(value) or value._is_zerotensor()):
        return 0
    shape = value.shape[:-1]
    return next((axis for axis, length in enumerate(shape) if length != 1), len(shape))


def _without_axes(graph: BoundGraph, numbers: Collection[int], most: int) -> BoundGraph:
    """Return the graph with up to `most` leading axes dropped from the inputs `numbers`."""

    def squeeze(value: torch.Tensor) -> torch.Tensor:
        """Return an input without its leading axes of size 1."""
        axes = tuple(range(min(most, _first_ones(value))))
        return with_autograd_state(value, value.detach().squeeze(axes))

    inputs = (squeeze(v) if number in numbers else v for number, v in enumerate(graph.inputs))
    return BoundGraph(graph.module, tuple(inputs))


def _first_runnable(graphs: Iterator[BoundGraph], feasible: MetaCheck) -> Iterator[BoundGraph]:
    """Yield the first of `graphs` that can run; nothing if none can."""
    for graph in graphs:
        if feasible(graph):
            yield graph
            return


def _resize_everywhere(
    graph: BoundGraph, change: SizeChange, written: SizeChange | None = None
) -> Iterator[BoundGraph]:
    """Yield the graph with `change` applied to the sizes of all inputs and to some literals.

    First to the literals in lists, then to all literals, then to none. `written` replaces `change`
    for literals unless it is None.
    """
    inputs = {place: new for place, old in size_places(graph) if (new := change(old)) != old}
    written = written or change
    literals = {place: new for place, old in _size_literals(graph) if (new := written(old)) != old}
    listed = {place: new for place, new in literals.items() if place.listed}
    seen: list[dict[CallLiteral, int]] = []
    for chosen in (listed, literals, {}):
        if chosen not in seen:
            seen.append(chosen)
            yield from _resize(graph, {**inputs, **chosen})


def _resize(graph: BoundGraph, sizes: dict[Any, int]) -> Iterator[BoundGraph]:
    """Yield the graph with the new `sizes` by place; nothing if an input cannot have them."""
    by_call: dict[str, dict[ArgumentPath, int]] = {}
    for place, new in sizes.items():
        if isinstance(place, CallLiteral):
            by_call.setdefault(place.call, {})[place.path] = new
    made: dict[int, object] = {}
    for number, value in enumerate(graph.inputs):
        if isinstance(value, torch.Tensor):
            shape = [sizes.get(InputAxis(number, axis), n) for axis, n in enumerate(value.shape)]
            if shape != list(value.shape) and id(value) not in made:
                made[id(value)] = crop(value, shape)
    if any(value is None for value in made.values()) or not sizes:
        return
    inputs = tuple(
        made.get(id(value), sizes.get(InputAxis(number, None), value))
        for number, value in enumerate(graph.inputs)
    )
    if not by_call:
        yield BoundGraph(graph.module, inputs)
        return
    arguments = {}
    for node in graph.calls:
        tree: Any = (node.args, dict(node.kwargs))
        for path, new in by_call.get(node.name, {}).items():
            tree = replace_leaf(tree, path, new)
        arguments[node] = tree
    try:
        part = graph.subgraph(graph.calls, outputs=graph.outputs, arguments=arguments)
    except Inseparable:
        return
    if len(part.inputs) == len(inputs):
        yield BoundGraph(part.module, inputs)
