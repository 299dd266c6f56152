"""Run a `for` loop with a data-dependent exit to its end, and mask what follows the exit."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    assignment_targets,
    find_definitions,
    is_tensor,
    live_in,
    names_bound,
    names_bound_before,
    names_read,
    split_statements,
    statements_after,
    walk,
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
from fullgraph.rewrites.transforms.branches.in_place import conditional_statement
from fullgraph.rewrites.transforms.branches.loop_flag import find_loop_flag
from fullgraph.rewrites.transforms.branches.loop_lines import LoopLines
from fullgraph.rewrites.transforms.branches.predicate import Predicate, predicate_of
from fullgraph.rewrites.transforms.branches.scalars import arithmetic_in_graph
from fullgraph.rewrites.transforms.branches.shortcut import leave_in_eager

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
    _counter: str = ""
    """Loop variable whose value at the exit is used after the loop; "" for none."""

    @functools.cached_property
    def _lines(self) -> LoopLines:
        """Return the writer of the loop's lines."""
        return LoopLines(self.site, self.assumes, result=self._returned_value(), stays=True)

    def edits(self) -> dict[cst.CSTNode, Replacement]:
        """Return the edits of the loop and of the `return` after it. Raises NotApplicable."""
        site, document = self.site, self.site.document
        loop = self._masked_loop()
        before_exit = split_statements(self.node.body)[:-1]
        flag = find_loop_flag(site, loop, before_exit)
        done = flag.name if flag is not None else document.unused_local(self.site.node, "done")
        before_exit = before_exit if flag is None else []
        condition, edits = predicate_of(site, self.node.test), self._keep_scalar(loop)
        if condition is None and edits:
            condition = Predicate(self.node.test)
        if condition is None:
            raise NotApplicable("no tensor was seen to decide its test")
        guard = condition.guard
        if guard is not None and (condition.disjunction or condition.negated):
            raise NotApplicable("Python alone can make its test true")
        choice = Choice(site, cst.Name(done), Agreement(site, self.assumes))
        choice.require_pure(*filter(None, (condition.tensor, guard)))
        lines, behind = self._statements_after_loop(choice, loop)
        for line in loop.body.body:
            if line in edits:
                continue
            if line is self.node:
                sign = "~" if condition.negated else ""
                bare = condition.tensor.with_changes(lpar=(), rpar=())
                test = build_expression(f"{sign}{{t}}", t=bare)
                new = self._exit_statements(done, test, before_exit, loop)
                if guard is not None:
                    new = [guard_with(guard, new, [])]
                kept = [*self.node.leading_lines, *lost_comments(self.node, new)]
                head = new[0].with_changes(leading_lines=kept)
                edits[line] = cst.FlattenSentinel([head, *new[1:]])
            else:
                edits |= self._lines.mask_line(choice, loop, line)
        ahead = [build_statement(f"{name} = None") for name in self._lines.unset]
        masked = replace_nodes(loop, edits)
        if self._counter:
            before, masked, last = self._keep_counter(choice, loop, masked)
            ahead, lines = [*ahead, before], [last, *lines]
        if flag is not None:
            self.assumes[f"a tensor may take the place of `{done}`"] = None
            behind |= flag.without
        if flag is not None and not flag.without:
            behind[flag.value] = self._unset_flag(flag.line, loop)
        else:
            start = build_statement(f"{done} = {{f}}", f=self._unset_flag(loop, loop))
            ahead = [start, *ahead]
        if ahead:
            ahead[0] = ahead[0].with_changes(leading_lines=loop.leading_lines)
            masked = masked.with_changes(leading_lines=())
        return {loop: cst.FlattenSentinel([*ahead, masked, *lines]), **behind}

    def _keep_counter(
        self, choice: Choice, loop: cst.For, masked: cst.For
    ) -> tuple[cst.BaseStatement, cst.For, cst.BaseStatement]:
        """Return a line before the loop, the loop, and a line after it that sets its variable.

        Inside, the variable counts on; a second one keeps its value at the exit.
        """
        name = self._counter
        last = self.site.document.unused_local(self.site.node, f"last_{name}")
        kept = build_statement(f"{last} = {choice.where}({{d}}, {last}, {name})", d=choice.test)
        self.assumes[f"a tensor may take the place of `{name}` after the loop"] = None
        if not self._lines.surely_iterates(loop):
            self.assumes[f"the loop that sets `{name}` runs at least once"] = None
        body = cst.ensure_type(masked.body, cst.IndentedBlock)
        masked = masked.with_changes(body=body.with_changes(body=[kept, *body.body]))
        return build_statement(f"{last} = 0"), masked, build_statement(f"{name} = {last}")

    def _exit_statements(
        self,
        done: str,
        test: cst.BaseExpression,
        first: Sequence[cst.CSTNode],
        loop: cst.For,
    ) -> list[cst.BaseStatement]:
        """Return the statements that replace the `if` with the exit.

        They set the flag `done` if `test` is true, and mask what the `if` does before the exit,
        the statements `first`.
        """
        body = cst.IndentedBlock([build_statement("break")])
        leave = leave_in_eager(self.site.document, cst.Name(done), body)
        if not first:
            return [build_statement(f"{done} = {done} | {{t}}", t=test), leave]
        leaving = self.site.document.unused_local(self.site.node, "leaving")
        choice = Choice(self.site, cst.Name(leaving), Agreement(self.site, self.assumes))

        def old(path: str, value: cst.BaseExpression) -> cst.BaseExpression:
            return self._lines.earlier_value(choice, path, loop)

        lines = [
            cst.SimpleStatementLine(
                [conditional_statement(choice, one, True, self._lines.carried_names(loop), old)]  # type: ignore[arg-type]
            )
            for one in first
        ]
        return [
            build_statement(f"{leaving} = ~{done} & {{t}}", t=test),
            *lines,
            build_statement(f"{done} = {done} | {leaving}"),
            leave,
        ]

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
        if used := variables & after:
            counts = m.matches(loop, m.For(target=m.Name(), iter=m.Call(func=m.Name("range"))))
            if not counts or self._returned_value() is not None:
                raise NotApplicable(f"`{min(used)}` is used after the loop")
            (self._counter,) = used
        return loop

    def _keep_scalar(self, loop: cst.For) -> dict[cst.CSTNode, Replacement]:
        """Return the edit of the line of the loop that computes the number which the test compares.

        The number stays a tensor: `r = a.norm() / b.norm()` for `r = a.norm().item() /
        b.norm().item()`. Empty if there is no such line, or if other code reads the number.
        """
        known = find_definitions(self.site.document, self.node)
        for name in walk(self.node.test):
            if known is None or not isinstance(name, cst.Name):
                continue
            bindings = known.reaching.get(name, frozenset())
            if len(bindings) != 1:
                continue
            (binding,) = bindings
            line = self.site.document.statement(binding)
            if line not in loop.body.body or len(known.uses(binding)) != 1:
                continue
            match line:
                case cst.SimpleStatementLine(body=[cst.Assign(targets=[_], value=value)]):
                    tensor = arithmetic_in_graph(self.site, value, self.assumes)
                    return {line: replace_nodes(line, {value: tensor})} if tensor else {}
        return {}

    def _unset_flag(self, place: cst.CSTNode, loop: cst.For) -> cst.BaseExpression:
        """Return a flag, False, on the device of a tensor that exists before `place`."""
        device = f", device={source}.device" if (source := self._tensor_before(place, loop)) else ""
        return build_expression(f"torch.zeros((), dtype=torch.bool{device})")

    def _tensor_before(self, place: cst.CSTNode, loop: cst.For) -> str:
        """Return the name of a tensor of the loop that exists before `place`; "" if none does."""
        known = names_bound_before(self.site.document, place)
        for source in (self.node.test, loop.body):
            for path in sorted(names_read(source) & known):
                nodes = [one for one in walk(source) if dotted_name(one) == path]
                if any(is_tensor(self.site, one) for one in nodes):
                    return path
        return ""
