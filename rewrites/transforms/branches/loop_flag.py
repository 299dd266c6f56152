"""The flag of a program that says whether it left a loop: `found = True` before `break`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from fullgraph.rewrites.analysis import (
    Site,
    assigned_value,
    find_definitions,
    names_bound,
    names_read,
    walk,
)
from fullgraph.rewrites.source import Replacement, dotted_name


@dataclass(frozen=True, eq=False)
class LoopFlag:
    """Name that is False before a loop, and True after it if the loop was left early."""

    name: str
    line: cst.SimpleStatementLine
    """The line that sets it to False."""
    value: cst.BaseExpression
    """The `False` in that line."""
    without: dict[cst.CSTNode, Replacement]
    """For a line that sets other names too, the edit after which it no longer sets the flag."""


def find_loop_flag(
    site: Site, loop: cst.For, before_exit: Sequence[cst.CSTNode]
) -> LoopFlag | None:
    """Return the flag that the statements before a loop's exit set to True.

    None if they do anything else, or if the loop, or code before it, reads the flag.
    """
    match before_exit:
        case [
            cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=cst.Name("True"))
        ]:
            pass
        case _:
            return None
    document = site.document
    known = find_definitions(document, loop)
    found = known.before.get(loop, {}).get(name, frozenset()) if known is not None else frozenset()
    if known is None or len(found) != 1 or name in names_read(loop):
        return None
    (binding,) = found
    value, line = assigned_value(document, binding), document.statement(binding)
    bound = [one for one in walk(loop) if isinstance(one, cst.Assign) and name in names_bound(one)]
    start = document.position(loop).line
    if (
        not (isinstance(value, cst.Name) and value.value == "False")
        or not isinstance(line, cst.SimpleStatementLine)
        or len(line.body) != 1
        or document.parent(line) is not document.parent(loop)
        or len(bound) != 1
        or any(document.position(use).line < start for use in known.uses(binding))
    ):
        return None
    return LoopFlag(name, line, value, _without_name(line.body[0], name))


def _without_name(assign: cst.CSTNode, name: str) -> dict[cst.CSTNode, Replacement]:
    """Return the edit of `a, name = x, False` to `a = x`; none for `name = False`."""
    match assign:
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Tuple() as target)], value=cst.Tuple() as value
        ):
            pass
        case _:
            return {}
    pairs = zip(target.elements, value.elements, strict=True)
    kept = [(a, b) for a, b in pairs if dotted_name(a.value) != name]
    left: cst.BaseAssignTargetExpression
    right: cst.BaseExpression
    if len(kept) == 1:
        ((one, other),) = kept
        assert isinstance(one.value, cst.BaseAssignTargetExpression)
        left, right = one.value, other.value
    else:
        left = target.with_changes(elements=[cst.Element(one.value) for one, _ in kept])
        right = value.with_changes(elements=[cst.Element(one.value) for _, one in kept])
    return {assign: assign.with_changes(targets=[cst.AssignTarget(left)], value=right)}
