"""The two branches of an `if`: its blocks, or what it skips and what follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from fullgraph.rewrites.analysis import Site, live_out, names_bound, statements_after, walk
from fullgraph.rewrites.transforms.branches.assignments import statements_of

_RETURNS = cst.Return | cst.Yield


@dataclass(frozen=True)
class Branches:
    """The two branches of an `if`: statements that run if its condition holds, and if not."""

    node: cst.If
    one: Sequence[cst.CSTNode]
    other: Sequence[cst.CSTNode]
    rest: Sequence[cst.BaseStatement] = ()
    """Statements after the `if` that form the other branch, up to the end of their block."""
    inner: cst.If | None = None
    """The `if` inside `node` whose condition decides; None if it is the condition of `node`."""

    @property
    def test(self) -> cst.BaseExpression:
        """Return the condition that decides between the branches."""
        return (self.inner or self.node).test

    @property
    def last(self) -> cst.CSTNode:
        """Return the last statement of the whole conditional."""
        return self.rest[-1] if self.rest else self.node

    def written(self, site: Site) -> list[str]:
        """Return the names and attributes that the branches assign and later code may read."""
        live = live_out(site.document, self.node, *self.rest)
        return [one for one in names_bound(self.node, *self.rest) if one in live or "." in one]

    def after(self, site: Site) -> tuple[cst.CSTNode, ...]:
        """Return the statements that may run after the `if`."""
        return statements_after(site.document, self.last)


def find_branches(site: Site, node: cst.If) -> Branches:
    """Return the branches of an `if`.

    Statements that its `continue` or bare `return` skips count as its other branch.
    """
    one = statements_of(node.body)
    rest = skipped_statements(site, node)
    if rest:
        last = one[-1]
        assert isinstance(last, cst.SimpleStatementLine)
        kept = [last.with_changes(body=last.body[:-1])] if len(last.body) > 1 else []
        return Branches(node, [*one[:-1], *kept], rest, rest)
    return blocks_of(node)


def blocks_of(node: cst.If) -> Branches:
    """Return the body and the `else` block of an `if` as its branches.

    An `elif` is the only statement of the other branch. Without `else`, that branch is empty.
    """
    orelse = node.orelse
    other = [orelse] if isinstance(orelse, cst.If) else statements_of(orelse.body) if orelse else ()
    return Branches(node, statements_of(node.body), other)


def last_line(node: cst.If) -> cst.SimpleStatementLine | None:
    """Return the last line in the body of an `if`.

    None if the `if` has an `else`, or if its body ends with a compound statement.
    """
    body = statements_of(node.body)
    last = body[-1] if body else None
    return last if node.orelse is None and isinstance(last, cst.SimpleStatementLine) else None


def skipped_statements(site: Site, node: cst.If) -> Sequence[cst.BaseStatement]:
    """Return the statements that `if t: continue` or a bare `if t: return` skips.

    Empty for other `if`s, for a jump that skips more than the rest of the block around the `if`,
    and in functions that return values.
    """
    outer, last = site.document.parent(node), last_line(node)
    if last is None or not isinstance(outer, cst.IndentedBlock):
        return ()
    holder, jump = site.document.parent(outer), last.body[-1]
    if isinstance(jump, cst.Continue):
        fits = isinstance(holder, cst.For | cst.While)
    else:
        fits = (
            _has_no_value(jump) and isinstance(holder, cst.FunctionDef) and _returns_nothing(holder)
        )
    return outer.body[outer.body.index(node) + 1 :] if fits else ()


def find_guarded_skip(site: Site, node: cst.If) -> Branches | None:
    """Return the branches of `if guard: …; if t: continue`, where `node` is the inner `if`.

    One branch is the code before `continue`, the other the code after the outer `if`.
    `Branches.node` is the outer `if`. None for other code.
    """
    outer = site.document.parents.get(site.document.parent(node))
    if not isinstance(outer, cst.If) or outer.orelse is not None:
        return None
    match last_line(node):
        case cst.SimpleStatementLine(body=[cst.Continue()]) if (
            statements_of(outer.body)[-1] is node
        ):
            pass
        case _:
            return None
    holder = site.document.parent(outer)
    loop = site.document.parents.get(holder)
    if not isinstance(holder, cst.IndentedBlock) or not isinstance(loop, cst.For | cst.While):
        return None
    rest = holder.body[holder.body.index(outer) + 1 :]
    return Branches(outer, statements_of(node.body)[:-1], rest, rest, node) if rest else None


def leaves_early(site: Site, node: cst.CSTNode) -> bool:
    """Return whether `node` contains a `raise`, `break` or `continue`; `return` does not count.

    Neither does a `continue` at the end of an `if` if the statements that it skips can become the
    other branch of the `if`.
    """
    skips = isinstance(node, cst.If) and (
        skipped_statements(site, node) or find_guarded_skip(site, node)
    )
    line = last_line(node) if isinstance(node, cst.If) and skips else None
    last = line.body[-1] if line is not None else None
    kinds = cst.Raise | cst.Break | cst.Continue
    return any(isinstance(one, kinds) and one is not last for one in walk(node))


def _has_no_value(node: cst.CSTNode) -> bool:
    """Return whether a node is `return` or `return None`."""
    return isinstance(node, cst.Return) and (
        node.value is None or (isinstance(node.value, cst.Name) and node.value.value == "None")
    )


def _returns_nothing(function: cst.FunctionDef) -> bool:
    """Return whether a function returns no value anywhere and is not a generator."""
    found = (one for one in walk(function.body) if isinstance(one, _RETURNS))
    return all(_has_no_value(one) for one in found)
