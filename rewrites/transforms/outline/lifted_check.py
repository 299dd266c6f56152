"""Checks inside branches that tensors decide, as checks above these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import Site, is_tensor, side_effect_of
from fullgraph.rewrites.source import build_expression, leading_lines, replace_nodes


@dataclass(frozen=True)
class LiftedCheck:
    """A check that goes above the branches around it."""

    guard: cst.If
    """The check: new code from nodes of the document."""
    outer: cst.If
    """The outermost `if` around the check in the document."""
    remaining: cst.If | None
    """The same without the check; None if it did nothing else."""
    tests: tuple[cst.BaseExpression, ...]
    """The conditions in the document that decide on the check."""


def lift_check(site: Site) -> LiftedCheck | None:
    """Return the check that the site's `if` is or begins with, above branches that tensors decide.

    One of its branches raises, and nothing precedes it in the branches around it. None otherwise.
    """
    return next(filter(None, (_lift(site, one) for one in _first_ifs(site.statement))), None)


def _first_ifs(statement: cst.CSTNode) -> Iterator[cst.If]:
    """Yield an `if` and those with which its branches begin."""
    if isinstance(statement, cst.If):
        yield statement
        for block in (statement.body, getattr(statement.orelse, "body", None)):
            for first in _lines(block)[:1]:
                yield from _first_ifs(first)


def _lift(site: Site, inner: cst.If) -> LiftedCheck | None:
    """Return the check `inner` above the branches around it; None if it is none or has none."""
    document = site.document
    blocks = [one for one in (inner.body, getattr(inner.orelse, "body", None)) if one is not None]
    indented = [one for one in blocks if isinstance(one, cst.IndentedBlock)]
    if isinstance(inner.orelse, cst.If) or indented != blocks:
        return None
    then, other = _lines(inner.body), _lines(inner.orelse.body if inner.orelse else None)
    if _raises(then):
        raised, kept, test = then, other, inner.test
    elif _raises(other):
        raised, kept, test = other, then, _negated(inner.test)
    else:
        return None
    outer, tests = inner, [inner.test]
    while (found := _branch_around(site, outer)) is not None:
        outer, holds = found
        tests.append(outer.test)
        test = build_expression("{holds} and {test}", holds=holds, test=test)
    alone = outer.orelse is None and _lines(outer.body) == [inner]
    placed = isinstance(document.parent(outer), cst.IndentedBlock)
    if outer is inner or not placed or side_effect_of(site, test) or not (kept or alone):
        return None
    remaining = None
    if kept:
        remaining = replace_nodes(outer, {inner: cst.FlattenSentinel(kept)})
        remaining = remaining.with_changes(leading_lines=())
    inside = [line for one in (inner, inner.orelse) if one for line in leading_lines(one)]
    beside = [one.header for one in indented if one.header.comment]
    above = [line for line in inside if line.comment]
    above += [cst.EmptyLine(comment=one.comment) for one in beside[1:]]
    block = cst.IndentedBlock(raised, header=[*beside, cst.TrailingWhitespace()][0])
    guard = cst.If(test, block, leading_lines=[*leading_lines(outer), *above])
    return LiftedCheck(guard, outer, remaining, tuple(tests))


def _lines(block: cst.BaseSuite | None) -> list[cst.BaseStatement]:
    """Return the statements of an indented block; [] of anything else."""
    return [*block.body] if isinstance(block, cst.IndentedBlock) else []


def _raises(lines: list[cst.BaseStatement]) -> bool:
    return len(lines) == 1 and m.matches(lines[0], m.SimpleStatementLine([m.Raise()]))


def _negated(test: cst.BaseExpression) -> cst.BaseExpression:
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return inner
    return build_expression("not {test}", test=test)


def _branch_around(site: Site, inner: cst.If) -> tuple[cst.If, cst.BaseExpression] | None:
    """Return the `if` that decides by a tensor whether `inner` runs, and the condition for that."""
    block = site.document.parent(inner)
    if not isinstance(block, cst.IndentedBlock) or block.body[0] is not inner:
        return None
    around = branch = site.document.parent(block)
    if isinstance(branch, cst.Else):
        around = site.document.parent(branch)
    if not isinstance(around, cst.If):
        return None
    holds = around.test if branch is around else _negated(around.test)
    plain = around.test
    while isinstance(plain, cst.UnaryOperation):
        plain = plain.expression
    return (around, holds) if is_tensor(site, plain) else None
