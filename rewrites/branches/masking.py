"""A `for` that a tensor breaks off, written so that it runs to its end."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from fullgraph.rewrites.branches.agreement import Agreement
from fullgraph.rewrites.branches.arms import OPERATORS
from fullgraph.rewrites.branches.choice import Choice
from fullgraph.rewrites.branches.predicate import Escape, predicate
from fullgraph.rewrites.branches.selection import comments
from fullgraph.rewrites.branches.updates import is_update, update
from fullgraph.rewrites.build import statement
from fullgraph.rewrites.document import Replacement, replaced
from fullgraph.rewrites.facts.flow import (
    assigned_before,
    following,
    live_in,
    name,
    reads,
    statements,
    targets,
    walk,
    writes,
)
from fullgraph.rewrites.facts.inferred import held, is_tensor
from fullgraph.rewrites.site import Site

_JUMPS = cst.Return | cst.Raise | cst.Break | cst.Continue


@dataclass
class Masking:
    """Writes one loop; `assumes` is filled on the way."""

    site: Site
    node: cst.If
    """The `if t: break`."""
    assumes: dict[str, None] = field(default_factory=dict)

    def edits(self) -> dict[cst.CSTNode, Replacement]:
        """What takes the place of the loop's statements. Raises Escape."""
        site, document = self.site, self.site.document
        loop = self._loop()
        done = document.fresh("done")
        test = predicate(site, self.node.test)
        if test is None or test.guard is not None:
            raise Escape("Python decides a part of its test")
        choice = Choice(site, cst.Name(done), Agreement(site, self.assumes))
        choice.pure(test.tensor)
        edits: dict[cst.CSTNode, Replacement] = {}
        for line in loop.body.body:
            if line is self.node:
                sign = "~" if test.negated else ""
                bare = test.tensor.with_changes(lpar=(), rpar=())
                new = statement(f"{done} = {done} | {sign}{{t}}", t=bare)
                kept = [*self.node.leading_lines, *comments(self.node, [])]
                edits[line] = new.with_changes(leading_lines=kept)
            elif isinstance(line, cst.SimpleStatementLine):
                for small in line.body:
                    edits |= self._masked(choice, loop, small)
            else:
                raise Escape("there are other blocks in the loop")
        device = f", device={source}.device" if (source := self._tensor(loop)) else ""
        start = statement(f"{done} = torch.zeros((), dtype=torch.bool{device})")
        first = start.with_changes(leading_lines=loop.leading_lines)
        masked = replaced(loop, edits).with_changes(leading_lines=())
        return {loop: cst.FlattenSentinel([first, masked])}

    def _loop(self) -> cst.For:
        """The loop that is broken off. Raises Escape where it does more than can be masked."""
        document = self.site.document
        suite = document.parent(self.node)
        loop = document.parent(suite)
        if isinstance(loop, cst.While):
            raise Escape("a `while` may not end if nothing leaves it")
        if not isinstance(loop, cst.For):
            raise Escape("the `break` stands deeper than in the loop's own block")
        if len(statements(self.node.body)) > 1 or self.node.orelse is not None:
            raise Escape("something else happens before the loop is left")
        if loop.orelse is not None:
            raise Escape("the loop has an `else`")
        if sum(isinstance(one, _JUMPS) for one in walk(loop.body)) > 1:
            raise Escape("the loop is left in several ways")
        after = live_in(one for one in following(document, loop) if one is not loop)
        variables = {name(target) for target in targets(loop)}
        if variables & after:
            raise Escape(f"`{min(variables & after)}` is used after the loop")
        return loop

    def _masked(
        self, choice: Choice, loop: cst.For, small: cst.BaseSmallStatement
    ) -> dict[cst.CSTNode, Replacement]:
        """One statement of the body, without a lasting effect once the loop is done."""
        site = self.site
        if isinstance(small, cst.Pass):
            return {}
        if is_update(site, small):
            return {small: update(choice, small, False)}
        if isinstance(small, cst.AugAssign):
            operator = OPERATORS.get(type(small.operator))
            target: cst.BaseExpression = small.target
            if operator is None:
                raise Escape(f"`{site.document.code(small)}` is no assignment of a value")
            value: cst.BaseExpression = cst.BinaryOperation(small.target, operator(), small.value)
        elif isinstance(small, cst.Assign) and len(small.targets) == 1:
            target, value = small.targets[0].target, small.value
        else:
            raise Escape(f"there is `{site.document.code(small)}` in the loop")
        choice.pure(value)
        path = name(target)
        if not path:
            raise Escape(f"the loop assigns to `{site.document.code(target)}`")
        if "." not in path and path not in self._lasting(loop):
            return dict(choice.taming(small, False))
        if "." not in path and path not in assigned_before(site.document, loop):
            raise Escape(f"`{path}` has no value before the loop")
        old = cst.parse_expression(path)
        fact = held(site, path, loop)
        if fact is not None:
            choice.agreement.known[old] = fact
        new = choice.between(old, value)
        return {small: cst.Assign([cst.AssignTarget(target)], new)}  # type: ignore[arg-type]

    def _lasting(self, loop: cst.For) -> frozenset[str]:
        """The names whose values go from round to round, or out of the loop."""
        document = self.site.document
        after = live_in(one for one in following(document, loop) if one is not loop)
        return frozenset(set(writes(loop.body)) & (after | live_in(loop.body.body)))

    def _tensor(self, loop: cst.For) -> str:
        """A name for a tensor that there is before the loop, on the device of the test."""
        known = assigned_before(self.site.document, loop)
        for path in sorted(reads(self.node.test) & known):
            nodes = [one for one in walk(self.node.test) if name(one) == path]
            if any(is_tensor(self.site, one) for one in nodes):
                return path
        return ""
