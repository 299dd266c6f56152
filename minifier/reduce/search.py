"""Ways of looking for the smallest thing that still fails, which several reducers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from fullgraph.minifier.oracle.problem import Problem

T = TypeVar("T")
S = TypeVar("S")

Build = Callable[[S], Iterable[T]]
"""Makes the candidate for a choice: one, or none where that cannot be."""


def first(problem: Problem[T], choices: Iterable[S], build: Build[S, T]) -> S | None:
    """Take the first of `choices` whose candidate fails. Returns it, or None."""
    made: dict[int, S] = {}

    def candidates() -> Iterator[T]:
        for choice in choices:
            for candidate in build(choice):
                made[id(candidate)] = choice
                yield candidate

    return made[id(problem.current)] if problem.first(candidates()) else None


def smallest(
    problem: Problem[T], low: int, high: int, build: Build[int, T], *, leap: int = 0
) -> int:
    """The smallest number from `low` to `high` for which the candidate fails; `high` is known to.

    By bisection: if failing is not monotone it is still a number that fails, and where the one
    below was asked and does not. With `leap`, numbers near `low` are tried first, then twice as
    far away, and so on.
    """
    while low < high:
        middle = min(low + leap, high) - 1 if leap else (low + high) // 2
        middle = max(middle, low)
        leap *= 2
        if first(problem, [middle], build) is None:
            low = middle + 1
        else:
            high, leap = middle, 0
    return high


def needed(problem: Problem[T], items: Sequence[S], build: Build[Sequence[S], T]) -> list[S]:
    """Find those of `items` that have to be there, when the candidate of all is known to fail.

    The shortest beginning that fails tells one of them, its last; with that one there, the
    beginning that is still needed tells the next.
    """
    found: list[S] = []
    rest = list(items)
    while rest:
        if found and first(problem, [list(found)], build) is not None:
            break
        beginnings = [[*found, *rest[:count]] for count in range(len(rest) + 1)]
        count = smallest(problem, 1, len(rest), lambda n, b=beginnings: build(b[n]))  # type: ignore[misc]
        found.append(rest[count - 1])
        rest = rest[: count - 1]
    return found


def batches(items: Sequence[S], weight: Callable[[S], float], count: int) -> Iterator[list[S]]:
    """`items` in order, in up to `count` parts of nearly the same weight."""
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
