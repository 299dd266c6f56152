"""Lines of a loop that have an effect only in some of its iterations."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    infer,
    infer_variable,
    live_in,
    may_raise,
    names_bound,
    names_bound_before,
    names_read,
    statements_after,
    torch_name,
    walk,
    word_set,
)
from fullgraph.rewrites.source import Replacement, build_expression, dotted_name, replace_nodes
from fullgraph.rewrites.transforms.branches.choice import Choice
from fullgraph.rewrites.transforms.branches.in_place import (
    guard_update,
    is_update,
    parse_assignment,
)

_CONCATENATIONS = word_set("cat column_stack concat concatenate dstack hstack row_stack vstack")


@dataclass
class LoopLines:
    """Writer of a loop's lines, masked by a flag that says whether they have no effect.

    `assumes` collects assumptions.
    """

    site: Site
    assumes: dict[str, None] = field(default_factory=dict)
    unset: dict[str, None] = field(default_factory=dict)
    """Names without a value before the loop; they are set to None there."""
    result: cst.BaseExpression | None = None
    """Value that the loop returns early; None if it does not return."""
    stays: bool = False
    """Whether the flag stays true once it is, so that no later iteration has an effect."""

    def earlier_value(self, choice: Choice, path: str, loop: cst.For) -> cst.BaseExpression:
        """Return the earlier value of a name or attribute, as a node with recorded facts.

        Raises NotApplicable if it has none.
        """
        if "." not in path and path not in names_bound_before(self.site.document, loop):
            raise NotApplicable(f"`{path}` has no value before the loop")
        old = cst.parse_expression(path)
        found = [infer_variable(self.site, path, loop)] if "." not in path else []
        found += [infer(self.site, one) for one in walk(loop) if dotted_name(one) == path]
        if fact := next(filter(None, found), None):
            choice.agreement.known[old] = fact
        return old

    def mask_line(
        self, choice: Choice, loop: cst.For, line: cst.CSTNode
    ) -> dict[cst.CSTNode, Replacement]:
        """Return the edits of a line of the loop, or of the lines in its blocks.

        Blocks are those of an `if` and of a `with` on a context manager of torch. Raises
        NotApplicable for others.
        """
        match line:
            case cst.SimpleStatementLine():
                body = [
                    new for small in line.body for new in self._mask_statement(choice, loop, small)
                ]
                return {line: _replace_line(line, body)}
            case cst.If(test=test, body=cst.IndentedBlock() as block, orelse=other):
                choice.require_pure(test)
                others = [] if other is None else [other]
            case cst.Else(body=cst.IndentedBlock() as block):
                others = []
            case cst.With(
                items=[cst.WithItem(item=cst.Call() as context)],
                body=cst.IndentedBlock() as block,
            ) if self.site.callee_name(context).startswith("torch."):
                others = []
            case _:
                raise NotApplicable("there are other blocks in the loop")
        edits: dict[cst.CSTNode, Replacement] = {}
        for one in (*block.body, *others):
            edits |= self.mask_line(choice, loop, one)
        return edits

    def _mask_statement(
        self, choice: Choice, loop: cst.For, small: cst.BaseSmallStatement
    ) -> list[cst.BaseSmallStatement]:
        """Return the statements that replace one of the loop and have no effect after the exit."""
        site = self.site
        if isinstance(small, cst.Pass):
            return [small]
        if is_update(site, small):
            return [guard_update(choice, small, False)]
        self._require_no_append(small)
        target, value = parse_assignment(site, small)
        choice.require_pure(value)
        path = dotted_name(target)
        if "." not in path and path not in self._masked_names(loop):
            return [replace_nodes(small, choice.make_finite_edits(small, False))]
        if self._grows(path, value, loop):
            raise NotApplicable(
                f"`{path}` grows in each iteration: allocate it at full length, write each part to "
                "its place, and mask what follows the exit"
            )
        if "." in path or path in names_bound_before(site.document, loop):
            return [
                _make_assignment(path, choice.select(self.earlier_value(choice, path, loop), value))
            ]
        if path in live_in(loop.body.body):
            raise NotApplicable(f"`{path}` has no value before the loop")
        self.unset[path] = None
        if not self.surely_iterates(loop):
            self.assumes[f"the loop that sets `{path}` runs at least once"] = None
        new = site.document.unused_local(site.node, f"new_{path}")
        choice.agreement.check_pair(value, value)
        value = choice.make_finite(value, False)
        kept = build_expression(
            f"{new} if {path} is None else {choice.where}({{d}}, {path}, {new})", d=choice.test
        )
        return [_make_assignment(new, value), _make_assignment(path, kept)]

    def _grows(self, path: str, value: cst.BaseExpression, loop: cst.For) -> bool:
        """Return whether a value concatenates the earlier value of its name with others.

        It does not grow if it was seen to have the shape that the name has before the loop.
        """
        concatenates = any(
            isinstance(one, cst.Call)
            and torch_name(self.site, one) in _CONCATENATIONS
            and path in names_read(one)
            for one in walk(value)
        )
        old, new = infer_variable(self.site, path, loop), infer(self.site, value)
        shapes = [seen.shapes for seen in (old, new) if seen is not None and seen.is_tensor]
        is_same = len(shapes) == 2 and shapes[0] == shapes[1] and len(shapes[0]) == 1
        return concatenates and not is_same

    def _require_no_append(self, small: cst.BaseSmallStatement) -> None:
        """Raise NotApplicable for `outs.append(x)`: how often it happens depends on the exit."""
        match small:
            case cst.Expr(
                value=cst.Call(
                    func=cst.Attribute(value=cst.Name() as kept, attr=cst.Name("append"))
                )
            ):
                raise NotApplicable(
                    f"the exit decides how many elements `{kept.value}` has: run all iterations, "
                    "and cut the result after the compiled call"
                )

    def surely_iterates(self, loop: cst.For) -> bool:
        """Return whether the source shows that the loop has an iteration: `range(10)`."""
        match loop.iter:
            case cst.Call(func=cst.Name("range"), args=[cst.Arg(value=cst.Integer() as number)]):
                return number.evaluated_value > 0
        return False

    def carried_names(self, loop: cst.For) -> frozenset[str]:
        """Return the names that carry values between iterations or out of the loop."""
        return frozenset(self._names_read_after(loop) | self._names_read_next(loop))

    def _names_read_after(self, loop: cst.For) -> set[str]:
        """Return the names that the loop binds and code after it reads."""
        document = self.site.document
        after = live_in(one for one in statements_after(document, loop) if one is not loop)
        after |= names_read(self.result) if self.result is not None else set()
        return set(names_bound(loop.body)) & after

    def _names_read_next(self, loop: cst.For) -> set[str]:
        """Return the names that the loop binds and a later iteration reads."""
        return set(names_bound(loop.body)) & live_in(loop.body.body)

    def _masked_names(self, loop: cst.For) -> frozenset[str]:
        """Return the names whose values are masked.

        If the flag stays true, what only later iterations read is not masked: they have no effect.
        Their values may become infinite then, so that must neither raise nor reach a gradient.
        """
        if not self.stays or may_raise(self.site, loop.body) or self._may_learn(loop):
            return self.carried_names(loop)
        return frozenset(self._names_read_after(loop))

    def _may_learn(self, loop: cst.For) -> bool:
        """Return whether something that the loop assigns may require grad."""
        assigned = [one for one in walk(loop.body) if isinstance(one, cst.Assign | cst.AugAssign)]
        facts = [infer(self.site, one.value) for one in assigned]
        return any(seen is None or seen.requires_grad for seen in facts)


def _make_assignment(path: str, value: cst.BaseExpression) -> cst.Assign:
    """Return the assignment `path = value`."""
    target = cst.parse_expression(path)
    assert isinstance(target, cst.BaseAssignTargetExpression)
    return cst.Assign([cst.AssignTarget(target)], value)


def _replace_line(line: cst.SimpleStatementLine, body: list[cst.BaseSmallStatement]) -> Replacement:
    """Return the replacement of `line` by the statements `body`, each on a line of its own."""
    if len(body) == len(line.body):
        return line.with_changes(body=body)
    first, *others = [cst.SimpleStatementLine([small]) for small in body]
    first = first.with_changes(
        leading_lines=line.leading_lines, trailing_whitespace=line.trailing_whitespace
    )
    return cst.FlattenSentinel([first, *others])
