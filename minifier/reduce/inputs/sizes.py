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
    """A size that may shrink: that of one axis of an input.

    If `axis` is None, the size is the input itself, an integer.
    """

    input: int
    axis: int | None


@dataclass(frozen=True)
class CallLiteral:
    """A size that may shrink: an integer in a call's arguments, as the 3 in `x.view(3, -1)`."""

    call: str
    path: ArgumentPath
    listed: bool
    """Whether it is one of several integers, as in a shape."""


SizePlace = InputAxis | CallLiteral
SizeChange = Callable[[int], int]
"""Returns the new size for an old one."""


def shrink_sizes(problem: Problem[BoundGraph], *, repeated: bool = False) -> None:
    """Make the sizes of inputs as small as the failure allows, then drop leading axes of size 1.

    First all sizes shrink at once, then each size wherever it occurs, then each axis alone. Set
    `repeated` if an earlier run has done this: then the first step is skipped, and a size whose
    next smaller one passes is left alone.
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
    """Return (place, size) for each axis of a graph's input tensors, and for each integer input."""
    found: list[tuple[SizePlace, int]] = []
    for number, value in enumerate(graph.inputs):
        if isinstance(value, torch.Tensor):
            found += [(InputAxis(number, axis), length) for axis, length in enumerate(value.shape)]
        elif type(value) is int:
            found.append((InputAxis(number, None), value))
    return found


def _sizes(graph: BoundGraph) -> set[int]:
    """Return the sizes above 1 that may shrink: those of inputs, and some literals.

    A literal must be in a list and divide the size of an input: `x.view(2, 3)` for an axis of size
    6.
    """
    own = {size for _, size in size_places(graph) if size > 1}
    listed = {size for place, size in _size_literals(graph) if place.listed}
    return own | {size for size in listed if any(whole % size == 0 for whole in own)}


def _size_literals(graph: BoundGraph) -> list[tuple[CallLiteral, int]]:
    """Return (literal, its value) for each integer above 1 in a graph's calls that may be a size.

    Calls whose integers are axes, such as `sum` and `permute`, are left out.
    """
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
    """Replace `size`, wherever it occurs, by the smallest size with which the graph fails.

    Set `repeated` if an earlier run has done this: then the next smaller size is tried first, and
    if the graph passes with it, `size` stays.
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
    """Try size 1 for one axis of one input after another; other axes of the same size stay."""
    for place, _ in size_places(problem.current):
        graph = problem.current
        sizes = dict(size_places(graph))
        if sizes.get(place, 1) > 1:
            problem.first(_first_runnable(_resize(graph, {place: 1}), MetaCheck(graph)))


def _drop_axes(problem: Problem[BoundGraph]) -> None:
    """Drop leading axes of size 1 from inputs while the graph fails: shape (1, 1, 3) → (3,).

    Tried in this order: all such axes of all inputs, all of one input, one of all, one of one.
    """
    while True:
        graph = problem.current
        flat = {number for number, value in enumerate(graph.inputs) if _count_leading_ones(value)}
        groups = [flat, *({number} for number in flat)] if len(flat) > 1 else [flat]
        ways = [(group, most) for most in (99, 1) for group in groups if group]
        feasible = MetaCheck(graph)
        if not problem.first(filter(feasible, (_without_axes(graph, *way) for way in ways))):
            return


def _count_leading_ones(value: object) -> int:
    """Return how many leading axes of size 1 can be dropped: shape (1, 1, 3) → 2, (1, 1) → 1.

    0 for a value that is no tensor, and for a sparse, quantized or wrapper tensor.
    """
    if not isinstance(value, torch.Tensor) or not (is_plain(value) or value._is_zerotensor()):
        return 0
    shape = value.shape[:-1]
    return next((axis for axis, length in enumerate(shape) if length != 1), len(shape))


def _without_axes(graph: BoundGraph, numbers: Collection[int], most: int) -> BoundGraph:
    """Return the graph with leading axes of size 1 dropped from the inputs with indices `numbers`.

    At most `most` axes are dropped from each.
    """

    def squeeze(value: torch.Tensor) -> torch.Tensor:
        """Return an input without its leading axes of size 1."""
        axes = tuple(range(min(most, _count_leading_ones(value))))
        return with_autograd_state(value, value.detach().squeeze(axes))

    inputs = (squeeze(v) if number in numbers else v for number, v in enumerate(graph.inputs))
    return BoundGraph(graph.module, tuple(inputs))


def _first_runnable(graphs: Iterator[BoundGraph], feasible: MetaCheck) -> Iterator[BoundGraph]:
    """Yield the first of `graphs` that can run, as `feasible(graph)` says; nothing if none can."""
    for graph in graphs:
        if feasible(graph):
            yield graph
            return


def _resize_everywhere(
    graph: BoundGraph, change: SizeChange, written: SizeChange | None = None
) -> Iterator[BoundGraph]:
    """Yield copies of the graph with `change(size)` in place of each size of an input.

    The copies differ in the literals that change, too: first those in lists, as in
    `x.view([2, 3])`, then all, then none. Literals change by `written`; if it is None, by `change`.
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
    """Yield the graph with new sizes; nothing if an input or a call cannot have them.

    `sizes` maps places (axes of inputs, or literals in calls) to their new sizes.
    """
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
