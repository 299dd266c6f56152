"""Taking as much as possible of many small steps, all at once first, then in halves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from fullgraph.minifier.oracle.problem import Problem

T = TypeVar("T")
S = TypeVar("S")

Build = Callable[[Sequence[S]], Iterable[T]]
"""Makes the candidate for some steps taken together: one, or none where that cannot be."""


def taken(
    problem: Problem[T],
    steps: Sequence[S],
    build: Build[S, T],
    weight: Callable[[S], float] = lambda step: 1,
    *,
    chunk: int = 0,
) -> list[S]:
    """Take what can be taken of `steps` together, and return it in order.

    What does not go as a whole, or `chunk` steps at a time, is parted into halves of about the
    same weight. If the left half goes, the right one gives the candidate of the whole again, which
    the problem knows.
    """
    size = chunk or len(steps) or 1
    stack = [list(steps[i : i + size]) for i in range(0, len(steps), size)][::-1]
    done: list[S] = []
    while stack:
        asked: list[tuple[T, list[S], list[list[S]]]] = []
        if not problem.first(_chunks(stack, done, build, weight, asked)):
            break
        found = next(one for one in reversed(asked) if one[0] is problem.current)
        done, stack = [*done, *found[1]], found[2]
    return done


def _chunks(
    stack: list[list[S]],
    done: list[S],
    build: Build[S, T],
    weight: Callable[[S], float],
    asked: list[tuple[T, list[S], list[list[S]]]],
) -> Iterator[T]:
    """Candidates with one more chunk each, as if every answer were no.

    `asked` learns of each candidate its chunk, and what is left to do if it is taken.
    """
    while stack:
        chunk = stack.pop()
        for candidate in build([*done, *chunk]):
            asked.append((candidate, chunk, list(stack)))
            yield candidate
        if len(chunk) > 1:
            middle = _middle(chunk, weight)
            stack += [chunk[middle:], chunk[:middle]]


def _middle(steps: Sequence[S], weight: Callable[[S], float]) -> int:
    """Where to part at least two steps."""
    total, sofar = sum(map(weight, steps)), 0.0
    for index, step in enumerate(steps[:-1], 1):
        sofar += weight(step)
        if 2 * sofar >= total:
            return index
    return len(steps) - 1
