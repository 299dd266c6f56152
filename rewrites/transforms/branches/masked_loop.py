"""Run a `for` loop with a data-dependent exit to its end, and mask what follows the exit."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    assignment_targets,
    infer,
    infer_variable,
    is_tensor,
    live_in,
    names_bound,
    names_bound_before,
    names_read,
    split_statements,
    statements_after,
    torch_name,
    walk,
    word_set,
)
from fullgraph.rewrites.source import (
    Replacement,
    build_expression,
    build_statement,
    dotted_name,
    replace_nodes,
)
from fullgraph.rewrites.transforms.branches import early_return as early
from fullgraph.rewrites.transforms.branches.agreement import Agreement
from fullgraph.rewrites.transforms.branches.block_lines import guard_with, lost_comments
from fullgraph.rewrites.transforms.branches.choice import Choice
from fullgraph.rewrites.transforms.branches.in_place import (
    conditional_statement,
    guard_update,
    is_update,
    parse_assignment,
)
from fullgraph.rewrites.transforms.branches.predicate import predicate_of

_CONCATENATIONS = word_set("cat column_stack concat concatenate dstack hstack row_stack vstack")
_JUMPS = cst.Return | cst.Raise | cst.Break | cst.Continue


@dataclass
class MaskedLoop:
    """Writer of a loop that runs to its end and masks what follows a data-dependent exit.

    `assumes` collects assumptions.
    """

    site: Site
    node: cst.If
    """The `if t: break` or `if t: return a`."""
    assumes: dict[str, None] = field(default_factory=dict)
    unset: dict[str, None] = field(default_factory=dict)
    """Names without a value before the loop; they are set to None there."""

    def edits(self) -> dict[cst.CSTNode, Replacement]:
        """Return the edits of the loop and of the `return` after it. Raises NotApplicable."""
        site, document = self.site, self.site.document
        loop = self._masked_loop()
        done = document.unused_local(self.site.node, "done")
        condition = predicate_of(site, self.node.test)
        if condition is None:
            raise NotApplicable("no tensor decides its test")
        guard = condition.guard
        if guard is not None and (condition.disjunction or condition.negated):
            raise NotApplicable("Python alone can make its test true")
        choice = Choice(site, cst.Name(done), Agreement(site, self.assumes))
        choice.require_pure(*filter(None, (condition.tensor, guard)))
        lines, behind = self._statements_after_loop(choice, loop)
        edits: dict[cst.CSTNode, Replacement] = {}
        for line in loop.body.body:
            if line is self.node:
                sign = "~" if condition.negated else ""
                bare = condition.tensor.with_changes(lpar=(), rpar=())
                new = self._exit_statements(done, build_expression(f"{sign}{{t}}", t=bare), loop)
                if guard is not None:
                    new = [guard_with(guard, new, [])]
                kept = [*self.node.leading_lines, *lost_comments(self.node, new)]
                head = new[0].with_changes(leading_lines=kept)
                edits[line] = cst.FlattenSentinel([head, *new[1:]])
            else:
                edits |= self._mask_line(choice, loop, line)
        device = f", device={source}.device" if (source := self._tensor_before_loop(loop)) else ""
        start = build_statement(f"{done} = torch.zeros((), dtype=torch.bool{device})")
        first = start.with_changes(leading_lines=loop.leading_lines)
        nothing = [build_statement(f"{name} = None") for name in self.unset]
        masked = replace_nodes(loop, edits).with_changes(leading_lines=())
        return {loop: cst.FlattenSentinel([first, *nothing, masked, *lines]), **behind}

    def _exit_statements(
        self, done: str, test: cst.BaseExpression, loop: cst.For
    ) -> list[cst.BaseStatement]:
        """Return the statements that replace the `if` with the exit.

        They set the flag `done` if `test` is true, and mask what the `if` does before the exit.
        """
        *first, _ = split_statements(self.node.body)
        if not first:
            return [build_statement(f"{done} = {done} | {{t}}", t=test)]
        leaving = self.site.document.unused_local(self.site.node, "leaving")
        choice = Choice(self.site, cst.Name(leaving), Agreement(self.site, self.assumes))

        def old(path: str, value: cst.BaseExpression) -> cst.BaseExpression:
            return self._earlier_value(choice, path, loop)

        lines = [
            cst.SimpleStatementLine(
                [conditional_statement(choice, one, True, self._carried_names(loop), old)]  # type: ignore[arg-type]
            )
            for one in first
        ]
        return [
            build_statement(f"{leaving} = ~{done} & {{t}}", t=test),
            *lines,
            build_statement(f"{done} = {done} | {leaving}"),
        ]

    def _earlier_value(self, choice: Choice, path: str, loop: cst.For) -> cst.BaseExpression:
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

    def _statements_after_loop(
        self, choice: Choice, loop: cst.For
    ) -> tuple[list[cst.BaseStatement], dict[cst.CSTNode, Replacement]]:
        """Return the statements to insert after the loop, and the edits of those already there.

        For a loop exit that returns; both are empty for a `break`.
        """
        value = self._returned_value()
        if value is None:
            return [], {}
        after = early.statements_after(self.site, loop)
        if names_read(value) & set(map(dotted_name, assignment_targets(loop))):
            raise NotApplicable("what is returned early depends on the loop's variables")
        choice.require_pure(*after.statements, after.value, value)
        choice.agreement.assume_zero_gradients([value], [*after.statements, after.value])
        edits: dict[cst.CSTNode, Replacement] = {}
        for one in after.statements:
            edits |= choice.make_finite_edits(one, False)
        new, lines = choice.select(value, after.value), []
        if names_read(value) & set(names_bound(*after.statements)):
            if value not in walk(new):
                raise NotApplicable("what is returned early is used again later")
            kept = self.site.document.unused_local(self.site.node, "early")
            lines.append(build_statement(f"{kept} = {{v}}", v=value))
            new = replace_nodes(new, {value: cst.Name(kept)})
        return lines, {**edits, after.line: after.line.with_changes(body=[cst.Return(new)])}

    def _returned_value(self) -> cst.BaseExpression | None:
        """Return the value that the loop exit returns; None for a `break`."""
        jump = split_statements(self.node.body)[-1]
        if isinstance(jump, cst.Return) and jump.value is None:
            raise NotApplicable("it returns nothing")
        return jump.value if isinstance(jump, cst.Return) else None

    def _masked_loop(self) -> cst.For:
        """Return the loop around the `if`. Raises NotApplicable if its body cannot be masked."""
        document = self.site.document
        suite = document.parent(self.node)
        loop = document.parent(suite)
        if isinstance(loop, cst.While):
            raise NotApplicable("a `while` may not end if nothing leaves it")
        if not isinstance(loop, cst.For):
            raise NotApplicable("the `break` stands deeper than in the loop's own block")
        if self.node.orelse is not None:
            raise NotApplicable("the `break` has an `else`")
        if loop.orelse is not None:
            raise NotApplicable("the loop has an `else`")
        if sum(isinstance(one, _JUMPS) for one in walk(loop.body)) > 1:
            raise NotApplicable("the loop is left in several ways")
        after = live_in(one for one in statements_after(document, loop) if one is not loop)
        variables = {dotted_name(target) for target in assignment_targets(loop)}
        if variables & after:
            raise NotApplicable(f"`{min(variables & after)}` is used after the loop")
        return loop

    def _mask_line(
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
            edits |= self._mask_line(choice, loop, one)
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
        target, value = parse_assignment(site, small)
        choice.require_pure(value)
        path = dotted_name(target)
        if "." not in path and path not in self._carried_names(loop):
            return [replace_nodes(small, choice.make_finite_edits(small, False))]
        if self._grows(path, value):
            raise NotApplicable(
                f"`{path}` grows in each iteration: allocate it at full length, write each part to "
                "its place, and mask what follows the exit"
            )
        if "." in path or path in names_bound_before(site.document, loop):
            return [
                _make_assignment(
                    path, choice.select(self._earlier_value(choice, path, loop), value)
                )
            ]
        if path in live_in(loop.body.body):
            raise NotApplicable(f"`{path}` has no value before the loop")
        self.unset[path] = None
        if not self._surely_iterates(loop):
            self.assumes[f"the loop that sets `{path}` runs at least once"] = None
        new = site.document.unused_local(site.node, f"new_{path}")
        choice.agreement.check_pair(value, value)
        value = choice.make_finite(value, False)
        kept = build_expression(
            f"{new} if {path} is None else {choice.where}({{d}}, {path}, {new})", d=choice.test
        )
        return [_make_assignment(new, value), _make_assignment(path, kept)]

    def _grows(self, path: str, value: cst.BaseExpression) -> bool:
        """Return whether a value concatenates the earlier value of its name with others."""
        return any(
            isinstance(one, cst.Call)
            and torch_name(self.site, one) in _CONCATENATIONS
            and path in names_read(one)
            for one in walk(value)
        )

    def _surely_iterates(self, loop: cst.For) -> bool:
        """Return whether the source shows that the loop has an iteration: `range(10)`."""
        match loop.iter:
            case cst.Call(func=cst.Name("range"), args=[cst.Arg(value=cst.Integer() as number)]):
                return number.evaluated_value > 0
        return False

    def _carried_names(self, loop: cst.For) -> frozenset[str]:
        """Return the names that carry values between iterations or out of the loop."""
        document = self.site.document
        after = live_in(one for one in statements_after(document, loop) if one is not loop)
        result = self._returned_value()
        after |= names_read(result) if result is not None else set()
        return frozenset(set(names_bound(loop.body)) & (after | live_in(loop.body.body)))

    def _tensor_before_loop(self, loop: cst.For) -> str:
        """Return the name of a tensor that exists before the loop, for its device; "" if none."""
        known = names_bound_before(self.site.document, loop)
        for source in (self.node.test, loop.body):
            for path in sorted(names_read(source) & known):
                nodes = [one for one in walk(source) if dotted_name(one) == path]
                if any(is_tensor(self.site, one) for one in nodes):
                    return path
        return ""


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
