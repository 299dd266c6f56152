"""Searches that reducers share: for the first choice, the largest, or the smallest that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from fullgraph.minifier.oracle.problem import Problem

T = TypeVar("T")
S = TypeVar("S")

Build = Callable[[S], Iterable[T]]
"""Yields the candidate for a choice; nothing if it cannot be built."""


def take_first(problem: Problem[T], choices: Iterable[S], build: Build[S, T]) -> S | None:
    """Find the first choice whose candidate fails; the candidate becomes `problem.current`.

    `build(choice)` yields the candidate, or nothing. Returns the choice; None if no candidate
    fails.
    """
    made: dict[int, S] = {}

    def candidates() -> Iterator[T]:
        """Yield the candidates of all choices; remember which choice each belongs to."""
        for choice in choices:
            for candidate in build(choice):
                made[id(candidate)] = choice
                yield candidate

    return made[id(problem.current)] if problem.first(candidates()) else None


def take_most(
    problem: Problem[T],
    items: Sequence[S],
    build: Build[Sequence[S], T],
    weight: Callable[[S], float] = lambda item: 1,
    *,
    chunk: int = 0,
) -> list[S]:
    """Apply as many of `items` as possible while the candidate fails; return these, in order.

    `build(items)` yields the candidate with these items applied. Chunks of `chunk` items (0: all)
    are tried first. A chunk with which the candidate does not fail is split into halves of similar
    weight.
    """
    size = chunk or len(items) or 1
    stack = [list(items[start : start + size]) for start in range(0, len(items), size)][::-1]
    taken: list[S] = []

    def build_step(step: tuple[list[S], list[list[S]]]) -> Iterable[T]:
        return build([*taken, *step[0]])

    while step := take_first(problem, _bisect_chunks(stack, weight), build_step):
        taken += step[0]
        stack = step[1]
    return taken


def _bisect_chunks(
    stack: Sequence[list[S]], weight: Callable[[S], float]
) -> Iterator[tuple[list[S], list[list[S]]]]:
    """Yield (chunk to try, chunks left if it is taken); the caller stops when it takes a chunk.

    The last chunk of `stack` is tried first. A chunk that is not taken is split into two of similar
    weight.
    """
    left = list(stack)
    while left:
        chunk = left.pop()
        yield chunk, list(left)
        if len(chunk) > 1:
            middle = _middle(chunk, weight)
            left += [chunk[middle:], chunk[:middle]]


def _middle(items: Sequence[S], weight: Callable[[S], float]) -> int:
    """Return the index at which to split two or more items into halves of similar weight."""
    total, before = sum(map(weight, items)), 0.0
    for index, item in enumerate(items[:-1], 1):
        before += weight(item)
        if 2 * before >= total:
            return index
    return len(items) - 1


def find_smallest(
    problem: Problem[T], low: int, high: int, build: Build[int, T], *, leap: int = 0
) -> int:
    """Return the smallest number from `low` to `high` whose candidate fails; `high` must fail.

    `build(number)` yields the candidate. The search is a bisection: if failing is not monotone, a
    lower number may fail, too. If `leap` is not 0, numbers near `low` are tried first, at doubling
    distances that begin with `leap`.
    """
    while low < high:
        middle = min(low + leap, high) - 1 if leap else (low + high) // 2
        middle = max(middle, low)
        leap *= 2
        if take_first(problem, [middle], build) is None:
            low = middle + 1
        else:
            high, leap = middle, 0
    return high


def find_needed(problem: Problem[T], items: Sequence[S], build: Build[Sequence[S], T]) -> list[S]:
    """Return the items without which the candidate does not fail; with all of them it must fail.

    `build(items)` yields the candidate with these items. The search goes from the end: the last
    item of the shortest failing prefix is needed; it is kept, and the items before it are searched
    likewise.
    """
    found: list[S] = []
    rest = list(items)
    while rest:
        if found and take_first(problem, [list(found)], build) is not None:
            break
        count = find_smallest(problem, 1, len(rest), partial(_prefix, build, [*found], rest))
        found.append(rest[count - 1])
        rest = rest[: count - 1]
    return found


def _prefix(
    build: Build[Sequence[S], T], found: list[S], rest: Sequence[S], count: int
) -> Iterable[T]:
    """Yield the candidate of the items `found` and the first `count` items of `rest`."""
    return build([*found, *rest[:count]])


def split_by_weight(
    items: Sequence[S], weight: Callable[[S], float], count: int
) -> Iterator[list[S]]:
    """Split `items`, in order, into about `count` parts of nearly the same weight."""
    share = sum(map(weight, items)) / count
    part: list[S] = []
    done = 0.0
    for item in items:
        if part and done + weight(item) / 2 > share:
            yield part
            part, done = [], 0.0
        part.append(item)
        done += weight(item)
    if part:
        yield part
