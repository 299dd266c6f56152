"""Causes before and after an edit: whether the edit pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fullgraph.compiler.sources import is_user_code
from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.explanation_data import Cause
from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.proof import Check

CauseKey = tuple[str, str, str, str]


def cause_key(cause: Cause) -> CauseKey:
    """Return a key that identifies a cause even after edits that move its lines."""
    position = cause.position
    return position.file, position.function, cause.category, cause.expression


def count_recompiles(explanation: Explanation) -> int:
    """Return the number of recompiles over all calls."""
    return sum(recompile.count for recompile in explanation.recompiles)


def recompile_causes(explanation: Explanation) -> list[Cause]:
    """Return a cause, "R1", "R2" …, for each value that recompiles, so that rules can offer edits.

    Values that no user code reads are left out.
    """
    return [
        recompile.as_cause(f"R{number}")
        for number, recompile in enumerate(explanation.recompiles, 1)
        if recompile.where is not None and is_user_code(recompile.where.file)
    ]


def check_causes(
    before: Explanation,
    after: Explanation,
    mended: Iterable[Cause],
    costly: Iterable[Cause] = (),
) -> Check:
    """Check that edits removed the causes `mended` and added no cause, recompile or crash.

    `before` and `after` explain the program without and with the edits. `costly` are those of
    `mended` whose edits make compiled code compute more: they must leave fewer breaks. If the
    compiler crashed before the edits, breaks and recompiles are not compared, because it counted
    them only up to the crash.
    """
    title = "causes"
    if after.error or after.crashes:
        return Check(title, False, after.error or "the compiler crashes on the new code")
    old, new = (_count_causes(explanation) for explanation in (before, after))
    if staying := staying_causes(before, after, mended):
        return Check(title, False, f"`{staying[0].expression}` still breaks")
    captured = bool(before.crashes) or (after.fullgraph.ok and before.fullgraph.ok is False)
    added = [c for c in after.causes if new[cause_key(c)] > old[cause_key(c)]]
    outside = {c.category for c in added} & {Category.DISABLED, Category.DYNAMIC_SHAPE}
    if not captured and outside:
        if (after.default.graphs or 0) >= (before.default.graphs or 0):
            return Check(title, False, "it gives as many graphs as before")
        if Category.DISABLED in outside and (loss := _loss_in_eager(before, after)):
            return Check(title, False, loss)
    if new.total() >= old.total() + bool(outside) and not captured:
        return Check(title, False, f"`{next(iter(new - old))[3]}` breaks instead")
    if not captured and not all(_has_fewer_breaks(before, after, cause) for cause in costly):
        return Check(title, False, "it breaks as often as before, and computes more")
    if not before.crashes and count_recompiles(after) > count_recompiles(before):
        return Check(title, False, "it recompiles more often")
    return Check(title, True, f"{old.total()} causes before, {new.total()} after")


def _loss_in_eager(before: Explanation, after: Explanation) -> str:
    """Return why a function that runs in eager costs more than it gains; "" if it does not."""
    if not after.default.graphs:
        return "it leaves nothing to compile"
    if _count_breaking(after) >= _count_breaking(before):
        return "it moves a break, and runs more code in eager"
    if takes_most(count_ops(before), count_ops(after)):
        return "it takes three quarters of the operators out of the graphs"
    return ""


def takes_most(before: int, after: int) -> bool:
    """Return whether fewer than a quarter of the operators in the graphs stay there."""
    return 4 * after < before


def _has_fewer_breaks(before: Explanation, after: Explanation, cause: Cause) -> bool:
    """Return whether there are fewer breaks in the mode of `cause`: default mode, if it has both.

    A hidden cause has none in default mode yet; removing it is enough.
    """
    if cause.events and "default" in cause.modes:
        return (after.default.breaks or 0) < (before.default.breaks or 0)
    fewer = (after.fullgraph.breaks or 0) < (before.fullgraph.breaks or 0)
    return fewer or bool(after.fullgraph.ok)


def _count_breaking(explanation: Explanation) -> int:
    """Return the number of causes that break the graph on the inputs in default mode."""
    return sum(one.events > 0 and "default" in one.modes for one in explanation.causes)


def count_ops(explanation: Explanation) -> int:
    """Return the number of operators in the graphs of the first call."""
    forward = [graph.ops for graph in explanation.graphs if graph.phase == "forward"]
    return sum(forward[: explanation.default.graphs])


def staying_causes(before: Explanation, after: Explanation, mended: Iterable[Cause]) -> list[Cause]:
    """Return those of `mended`, the causes that edits should remove, that are still in `after`.

    `before` and `after` explain the program without and with the edits; `after` may be partial.
    """
    old, new = (_count_causes(explanation) for explanation in (before, after))
    return [c for c in mended if new[cause_key(c)] >= max(old[cause_key(c)], 1)]


def _count_causes(explanation: Explanation) -> Counter[CauseKey]:
    return Counter(map(cause_key, explanation.causes))


def replaces_causes(before: Explanation, after: Explanation, mended: Iterable[Cause]) -> bool:
    """Return whether edits removed the causes `mended` but added others in their place.

    The number of all causes must be the same as before or greater by one. A rewritten branch, for
    example, may reveal a cause inside it.
    """
    if after.error or after.crashes or not 0 <= len(after.causes) - len(before.causes) <= 1:
        return False
    remaining = set(map(cause_key, after.causes))
    return not any(cause_key(cause) in remaining for cause in mended)
