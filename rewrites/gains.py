"""Whether edits pay: causes before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from fullgraph.diagnose.explanation import Cause, Explanation
from fullgraph.rewrites.proof.proof import Check

Name = tuple[str, str, str, str]


@dataclass(frozen=True)
class Ahead:
    """From where on edits must pay together, and how many more may be tried."""

    start: Explanation
    steps: int = 2


def name(cause: Cause) -> Name:
    """What a cause is called across edits that move lines."""
    position = cause.position
    return position.file, position.function, cause.category, cause.expression


def helps(before: Explanation, after: Explanation, mended: Iterable[Cause]) -> Check:
    """Whether edits took their causes away, and brought no cause, recompile or crash."""
    title = "causes"
    if after.error or after.crashes:
        return Check(title, False, after.error or "the compiler crashes on the new code")
    old, new = (Counter(map(name, explanation.causes)) for explanation in (before, after))
    staying = [cause for cause in mended if new[name(cause)] >= max(old[name(cause)], 1)]
    if staying:
        return Check(title, False, f"`{staying[0].expression}` still breaks")
    if new.total() >= old.total():
        fresh = next(iter(new - old))
        return Check(title, False, f"`{fresh[3]}` breaks instead")
    recompiles = [sum(r.count for r in e.recompiles) for e in (before, after)]
    if recompiles[1] > recompiles[0]:
        return Check(title, False, "it recompiles more often")
    return Check(title, True, f"{old.total()} causes before, {new.total()} after")


def turns(before: Explanation, after: Explanation, mended: Iterable[Cause]) -> bool:
    """Whether edits took their causes away, and brought as many others."""
    if after.error or after.crashes or len(before.causes) != len(after.causes):
        return False
    names = set(map(name, after.causes))
    return not any(name(cause) in names for cause in mended)
