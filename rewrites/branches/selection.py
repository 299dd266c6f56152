"""Decisions written as values that are all computed, and chosen between with `torch.where`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import libcst as cst

from fullgraph.rewrites.branches.agreement import Agreement
from fullgraph.rewrites.branches.arms import RETURN, Arm, arm, block
from fullgraph.rewrites.branches.choice import Choice
from fullgraph.rewrites.branches.predicate import Escape, Predicate, predicate
from fullgraph.rewrites.branches.updates import only_updates, operands, updates
from fullgraph.rewrites.build import statement
from fullgraph.rewrites.document import Replacement, replaced
from fullgraph.rewrites.facts.flow import (
    assigned_before,
    following,
    live_out,
    mutations,
    name,
    reads,
    walk,
    writes,
)
from fullgraph.rewrites.facts.inferred import held, inferred
from fullgraph.rewrites.facts.seen import Seen
from fullgraph.rewrites.site import Site

Lines = list[cst.BaseStatement]
Way = TypeVar("Way")


@dataclass
class Selection:
    """Writes one decision with `torch.where`; `assumes` and `tests` are filled on the way."""

    site: Site
    assumes: dict[str, None] = field(default_factory=dict)
    tests: list[cst.BaseExpression] = field(default_factory=list)
    known: dict[cst.CSTNode, Seen] = field(default_factory=dict)
    """What is known of new nodes."""

    def ternary(self, node: cst.IfExp, test: Predicate) -> cst.BaseExpression:
        """`a if t else b` as one expression."""
        one, other = ordered(test, node.body, node.orelse)
        choice = self.choice(test)
        choice.pure(one, other)
        choice.agreement.gradients([one], [other])
        made = choice.between(one, other)
        self.tests.append(node.test)
        if choice.uses > 1:
            raise Escape("the test would have to be written several times")
        if test.guard is None:
            return made
        body, orelse = (one, made) if test.disjunction else (made, other)
        return cst.IfExp(test.guard, body, orelse)

    def branch(self, node: cst.If, test: Predicate) -> Lines:
        """An `if` as the statements that do the same."""
        one, other = ordered(test, arm_block(node), else_block(node))
        if self.site.document.function(node) is None:
            raise Escape("it stands outside of functions")
        if only_updates(self.site, node):
            lines = self._updated(node, test)
        else:
            outputs = self._outputs(node)
            lines = self._chosen(node, test, self._arm(one, outputs), self._arm(other, outputs))
        if test.guard is None:
            return lines
        ways = (one, lines) if test.disjunction else (lines, other)
        return [guarded(test.guard, *ways)]

    def _outputs(self, node: cst.If) -> frozenset[str]:
        live = live_out(self.site.document, node)
        found = frozenset(one for one in writes(node) if one in live or "." in one)
        return found | {RETURN}

    def _arm(self, body: Sequence[cst.CSTNode], outputs: frozenset[str]) -> Arm:
        """An arm; decisions on tensors in it are written with `torch.where` as well."""
        if len(body) == 1 and isinstance(body[0], cst.If):
            nested = body[0]
            test = predicate(self.site, nested.test)
            if test is not None and test.guard is None:
                self.tests.append(nested.test)
                one, other = ordered(test, arm_block(nested), else_block(nested))
                choice = self.choice(test)
                made = self._merged(
                    nested, choice, self._arm(one, outputs), self._arm(other, outputs)
                )
                if choice.uses > 1:
                    raise Escape("the inner test would have to be written several times")
                choice.pure(test.tensor)
                return made
        return arm(self.site, body, outputs)

    def _merged(self, node: cst.If, choice: Choice, one: Arm, other: Arm) -> Arm:
        """The values of both arms as one."""
        self._separate(node, choice, one, other)
        keys = list(dict.fromkeys((*one.values, *other.values)))
        if RETURN in keys and not (RETURN in one.values and RETURN in other.values):
            raise Escape("one way returns and the other goes on")
        values = {}
        used: tuple[list[cst.CSTNode], ...] = ([*one.own], [*other.own])
        for key in keys:
            a, b = (side.values.get(key) or self.present(key, node) for side in (one, other))
            used[0].append(a)
            used[1].append(b)
            self._lasting(key, node, a, b)
            choice.pure(a, b)
            choice.agreement.arithmetic = self._arithmetic(key, node)
            values[key] = choice.between(a, b)
        choice.agreement.gradients(*used)
        own = [
            self._tamed_line(choice, line, side)
            for arm, side in ((one, True), (other, False))
            for line in arm.own
        ]
        return Arm(values, own)

    def _tamed_line(self, choice: Choice, line: cst.BaseStatement, side: bool) -> cst.BaseStatement:
        choice.pure(line)
        edits = choice.taming(line, side)
        return replaced(line, edits) if edits else line

    def _chosen(self, node: cst.If, test: Predicate, one: Arm, other: Arm) -> Lines:
        choice = self.choice(test)
        merged = self._merged(node, choice, one, other)
        self.tests.append(node.test)
        return self._hoisted(choice, [*merged.own, *_assignments(merged.values)])

    def _updated(self, node: cst.If, test: Predicate) -> Lines:
        """An `if` that only changes tensors in place."""
        choice = self.choice(test)
        lines = updates(choice, node, not test.negated)
        orelse = node.orelse.body if isinstance(node.orelse, cst.Else) else None
        choice.agreement.gradients(operands(node.body), operands(orelse))
        self.tests.append(node.test)
        changed = set(mutations(node)) & reads(choice.test)
        return self._hoisted(choice, lines, len(lines) > 1 and bool(changed))

    def _hoisted(self, choice: Choice, lines: Lines, needed: bool = False) -> Lines:
        """`lines`, with a name for the test where it stands in them several times."""
        if isinstance(choice.test, cst.Name) or (choice.uses < 2 and not needed):
            return lines
        condition = self.site.document.fresh("condition")
        edits: dict[cst.CSTNode, Replacement] = {choice.test: cst.Name(condition)}
        first = statement("{c} = {t}", c=condition, t=choice.test)
        return [first, *(replaced(line, edits) for line in lines)]

    def _separate(self, node: cst.If, choice: Choice, one: Arm, other: Arm) -> None:
        """Raises Escape where a name of one arm alone means something elsewhere."""
        names = [set(writes(*side.own)) for side in (one, other)]
        used = [reads(*side.own, *side.values.values()) for side in (one, other)]
        both = (names[0] & (names[1] | used[1])) | (names[1] & used[0])
        shared = both | ((names[0] | names[1]) & reads(choice.test))
        if shared:
            raise Escape(f"`{min(shared)}` is something else on each way")

    def present(self, key: str, node: cst.If) -> cst.BaseExpression:
        """What `key` holds when the decision starts, as a node that facts are known of."""
        if "." not in key and key not in assigned_before(self.site.document, node):
            raise Escape(f"`{key}` has no value where the other way is taken")
        new = cst.parse_expression(key)
        if "." in key:
            found = [one for one in walk(node) if isinstance(one, cst.Attribute)]
            seen = [self.site.seen(one) for one in found if name(one) == key]
        else:
            seen = [held(self.site, key, node)]
        if fact := next(filter(None, seen), None):
            self.known[new] = fact
        return new

    def _lasting(self, key: str, node: cst.If, *values: cst.BaseExpression) -> None:
        """Raises Escape where a value is changed in place later: a copy would not be."""
        aliases = {name(value) for value in values} | {key}
        changed = aliases & set(mutations(*following(self.site.document, node)))
        if changed - {""}:
            raise Escape(f"`{min(changed - {''})}` is changed in place later")

    def choice(self, test: Predicate) -> Choice:
        bare = test.tensor.with_changes(lpar=(), rpar=())
        return Choice(self.site, bare, Agreement(self.site, self.assumes, self.known))

    def _arithmetic(self, key: str, node: cst.If) -> bool:
        """Whether all later uses of a name are operands of floating-point tensors."""
        document = self.site.document
        uses = [
            one
            for later in following(document, node)
            for one in walk(later)
            if isinstance(one, cst.Name) and one.value == key
        ]
        return bool(uses) and all(self._is_operand(document.parent(use), use) for use in uses)

    def _is_operand(self, parent: cst.CSTNode, use: cst.Name) -> bool:
        if not isinstance(parent, cst.BinaryOperation):
            return False
        seen = inferred(self.site, parent.left if parent.right is use else parent.right)
        return seen is not None and seen.is_tensor and all(t.is_float for t in seen.tensors)


def _assignments(values: dict[str, cst.BaseExpression]) -> Lines:
    if RETURN in values:
        return [statement("return {v}", v=values[RETURN])]
    changed = [key for key, value in values.items() if name(value) != key]
    tangled = any(
        changed[i] in reads(values[later])
        for i in range(len(changed))
        for later in changed[i + 1 :]
    )
    if tangled:
        parts = {f"v{i}": values[key] for i, key in enumerate(changed)}
        right = ", ".join(f"{{{part}}}" for part in parts)
        return [statement(f"{', '.join(changed)} = {right}", **parts)]
    return [statement("{k} = {v}", k=key, v=values[key]) for key in changed]


def ordered(test: Predicate, one: Way, other: Way) -> tuple[Way, Way]:
    return (other, one) if test.negated else (one, other)


def arm_block(node: cst.If) -> Sequence[cst.CSTNode]:
    return block(node.body)


def else_block(node: cst.If) -> Sequence[cst.CSTNode]:
    if node.orelse is None:
        return ()
    return [node.orelse] if isinstance(node.orelse, cst.If) else block(node.orelse.body)


def guarded(
    guard: cst.BaseExpression, one: Sequence[cst.CSTNode], other: Sequence[cst.CSTNode]
) -> cst.If:
    if not one:
        opposite = cst.UnaryOperation(cst.Not(), guard)
        return cst.If(opposite, cst.IndentedBlock(list(other)))  # type: ignore[arg-type]
    orelse = cst.Else(cst.IndentedBlock(list(other))) if other else None  # type: ignore[arg-type]
    return cst.If(guard, cst.IndentedBlock(list(one)), orelse)  # type: ignore[arg-type]


def in_place(node: cst.If, lines: Lines, parent: cst.CSTNode) -> Replacement:
    """What takes the place of an `if` or `elif`, with the comments around it."""
    if isinstance(parent, cst.If) and parent.orelse is node:
        return cst.Else(cst.IndentedBlock(lines), leading_lines=node.leading_lines)
    kept = [*node.leading_lines, *comments(node, lines)]
    if not lines:
        return cst.RemoveFromParent()
    first = lines[0].with_changes(leading_lines=[*kept, *leading(lines[0])])
    return cst.FlattenSentinel([first, *lines[1:]])


def leading(line: cst.BaseStatement) -> Sequence[cst.EmptyLine]:
    found = getattr(line, "leading_lines", ())
    return tuple(found)


def comments(node: cst.CSTNode, lines: Lines) -> list[cst.EmptyLine]:
    """The comments inside a statement that none of the new lines has."""
    own = {c.value for line in lines for c in walk(line) if isinstance(c, cst.Comment)}
    ahead = {
        c.value
        for line in getattr(node, "leading_lines", ())
        for c in walk(line)
        if isinstance(c, cst.Comment)
    }
    inside = [c for c in walk(node) if isinstance(c, cst.Comment)]
    return [cst.EmptyLine(comment=c) for c in inside if c.value not in own | ahead]
