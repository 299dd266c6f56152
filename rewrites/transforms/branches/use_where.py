"""Rewrite branches as values that are all computed, chosen between with `torch.where`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import libcst as cst

from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    infer,
    infer_variable,
    is_new_tensor,
    live_in,
    names_bound,
    names_bound_before,
    names_mutated,
    names_read,
    side_effect_of,
    walk,
)
from fullgraph.rewrites.source import (
    Replacement,
    build_statement,
    dotted_name,
    replace_nodes,
)
from fullgraph.rewrites.transforms.branches.agreement import Agreement
from fullgraph.rewrites.transforms.branches.assignments import (
    APPEND,
    ITEM,
    RETURN,
    BranchValues,
    require_once,
    values_assigned,
)
from fullgraph.rewrites.transforms.branches.block_lines import Lines, guard_with
from fullgraph.rewrites.transforms.branches.branches import Branches, blocks_of
from fullgraph.rewrites.transforms.branches.choice import Choice
from fullgraph.rewrites.transforms.branches.in_place import (
    changes_tensors,
    guard_updates,
    stored_operands,
)
from fullgraph.rewrites.transforms.branches.output import writes_only
from fullgraph.rewrites.transforms.branches.predicate import Predicate, flag_name, predicate_of
from fullgraph.rewrites.transforms.branches.selected_list import find_selected_list
from fullgraph.rewrites.transforms.branches.shared_calls import assign_once
from fullgraph.rewrites.transforms.branches.shortcut import saves_work, skip_in_eager

Branch = TypeVar("Branch")


@dataclass
class WhereWriter:
    """Writer of one conditional as `torch.where`.

    Collects in `assumes` what the edit assumes, and in `tests` the conditions that it replaces.
    """

    site: Site
    assumes: dict[str, None] = field(default_factory=dict)
    tests: list[cst.BaseExpression] = field(default_factory=list)
    known: dict[cst.CSTNode, ValueSummary] = field(default_factory=dict)
    """Observed values of expressions that the edit creates."""
    random: bool = False
    """Whether the branches may draw random numbers."""
    operands: frozenset[str] = frozenset()
    """Names of numbers that are only operands of tensor operations, in which they are exact."""
    ahead: cst.BaseStatement | None = None
    """A line to insert before the statement that contains a conditional expression."""
    elsewhere: dict[cst.CSTNode, Replacement] = field(default_factory=dict)
    """Edits outside of the branches."""
    has_shortcut: bool = False
    """Whether eager code goes on to skip work (`Rewrite.has_shortcut`)."""
    output: list[cst.BaseStatement] = field(default_factory=list)
    """Statements of the branches that only print, log or warn; the rewrite leaves them out."""

    def ternary(self, node: cst.IfExp, condition: Predicate) -> cst.BaseExpression:
        """Rewrite `a if t else b` as one expression."""
        one, other = order_branches(condition, node.body, node.orelse)
        choice = self.choice(condition)
        choice.require_pure(one, other)
        choice.agreement.assume_zero_gradients([one], [other])
        made = choice.select(one, other)
        self.tests.append(node.test)
        if choice.uses > 1:
            if condition.guard is not None:
                raise NotApplicable("the test would have to be written several times")
            name = cst.Name(self.site.document.unused_local(self.site.node, "condition"))
            self.ahead = build_statement("{c} = {t}", c=name, t=choice.test)
            made = replace_nodes(made, {choice.test: name})
        if condition.guard is None:
            return made
        body, orelse = (one, made) if condition.disjunction else (made, other)
        return cst.IfExp(condition.guard, body, orelse)

    def branch(self, branches: Branches, condition: Predicate) -> Lines:
        """Rewrite an `if` as statements without a branch."""
        node = branches.node
        one, other = order_branches(condition, branches.one, branches.other)
        if self.site.document.function(node) is None:
            raise NotApplicable("it stands outside of functions")
        read_later = frozenset((*branches.written(self.site), RETURN))
        if changes_tensors(self.site, one, other, read_later=read_later):
            lines = self._merge_updates(branches, condition)
        else:
            tests, output = [*self.tests], [*self.output]
            arms = [self._values_of_branch(body, read_later) for body in (one, other)]
            if shared := _shared_names(condition.tensor, *arms):  # written in place of their uses
                self.tests, self.output = tests, output
                arms = [self._values_of_branch(body, read_later | shared) for body in (one, other)]
                for arm in arms:
                    arm.values = {key: arm.values[key] for key in arm.values if key not in shared}
            lines = self._where_statements(branches, condition, other, *arms)
        if condition.guard is None or (
            [*lines] == [*other]
            and not condition.disjunction
            and not side_effect_of(self.site, condition.guard)
        ):
            return lines
        kept = (one, lines) if condition.disjunction else (lines, other)
        return [guard_with(condition.guard, *kept)]

    def _values_of_branch(
        self, body: Sequence[cst.CSTNode], read_later: frozenset[str]
    ) -> BranchValues:
        """Return the values that a branch assigns.

        If the branch is a data-dependent `if`, its branches are selected by `torch.where` too.
        """
        if len(body) == 1 and isinstance(body[0], cst.If):
            nested = blocks_of(body[0])
            condition = predicate_of(self.site, nested.node.test)
            if condition is not None and condition.guard is None:
                self.tests.append(nested.node.test)
                one, other = order_branches(condition, nested.one, nested.other)
                choice = self.choice(condition)
                arms = (
                    self._values_of_branch(one, read_later),
                    self._values_of_branch(other, read_later),
                )
                made = self._merge_values(nested, choice, *arms)
                if choice.uses > 1:
                    raise NotApplicable("the inner test would have to be written several times")
                choice.require_pure(condition.tensor)
                return made
        return values_assigned(self.site, self.without_output(body), read_later)

    def without_output(self, body: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
        """Return a branch's statements without prints and logging, which are added to `output`."""
        writing = [one for one in body if writes_only(self.site, one)]
        self.output += [one for one in writing if isinstance(one, cst.BaseStatement)]
        return [one for one in body if one not in writing]

    def _merge_values(
        self, branches: Branches, choice: Choice, one: BranchValues, other: BranchValues
    ) -> BranchValues:
        """Return the selections between the values of two branches, and the local lines of both."""
        self._require_private_names(choice, one, other)
        keys = list(dict.fromkeys((*one.values, *other.values)))
        if RETURN in keys and not (RETURN in one.values and RETURN in other.values):
            raise NotApplicable("one branch returns and the other goes on")
        values: dict[str, cst.BaseExpression] = {}
        used: tuple[list[cst.CSTNode], ...] = ([*one.local_lines], [*other.local_lines])
        for key in keys:
            if key.endswith(APPEND) and not (key in one.values and key in other.values):
                values |= self._select_appended(key, branches, choice, one, other, used)
                continue
            a, b = (
                when.values.get(key) or self.value_before(key, branches) for when in (one, other)
            )
            used[0].append(a)
            used[1].append(b)
            self._require_no_update(key, branches, a, b)
            choice.require_pure(a, b)
            choice.agreement.arithmetic = key in self.operands or self._is_float_operand(
                key, branches
            )
            values[key] = choice.select(a, b)
        require_once([*one.values.values(), *other.values.values()], values.values())
        choice.agreement.assume_zero_gradients(used[0], used[1])
        own = [
            self.unconditional_line(choice, line, when)
            for branch_values, when in ((one, True), (other, False))
            for line in branch_values.local_lines
        ]
        return BranchValues(values, own)

    def _select_appended(
        self,
        key: str,
        branches: Branches,
        choice: Choice,
        one: BranchValues,
        other: BranchValues,
        used: tuple[list[cst.CSTNode], ...],
    ) -> dict[str, cst.BaseExpression]:
        """Return what to append, zero for the branch that appended nothing, and whether it counts.

        `used` are the values of the two branches so far, to which it adds. Raises NotApplicable.
        """
        first = key in one.values
        value = (one if first else other).values[key]
        name = key.removesuffix(APPEND)
        found = find_selected_list(self.site, branches, name, value)
        used[not first].append(value)
        choice.require_pure(value)
        zero = cst.Integer("0")
        values = {key: choice.select_stored(*((value, zero) if first else (zero, value)))}
        if found.kept:
            choice.uses += 1
            values[f"{found.kept}{APPEND}"] = choice.as_bool(first)
        self.elsewhere |= found.edits
        if found.assumes:
            self.assumes[found.assumes] = None
        return values

    def unconditional_line(
        self, choice: Choice, line: cst.BaseStatement, when: bool
    ) -> cst.BaseStatement:
        """Return a line of the branch for `when`, edited so that it can run unconditionally.

        Raises NotApplicable if it has side effects.
        """
        match line:  # the only items that local lines assign are of tensors that the branch made
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript() as item)]) as one]
            ):
                choice.require_pure(one.value, *item.slice)
            case _:
                choice.require_pure(line)
        edits = choice.make_finite_edits(line, when)
        return replace_nodes(line, edits) if edits else line

    def _where_statements(
        self,
        branches: Branches,
        condition: Predicate,
        kept: Sequence[cst.CSTNode],
        one: BranchValues,
        other: BranchValues,
    ) -> Lines:
        """Return the local lines of both branches, and the selections of what they assign.

        `kept`, the statements that assign `other`, if the values of `one` are the same.
        """
        choice = self.choice(condition)
        merged = self._merge_values(branches, choice, one, other)
        self.tests.append(branches.test)
        same = merged.values.keys() == other.values.keys() and not merged.local_lines
        if same and all(v.deep_equals(other.values[key]) for key, v in merged.values.items()):
            return [one for one in kept if isinstance(one, cst.BaseStatement)]
        lines = [*merged.local_lines, *assign_once(self.site, branches, merged.values)]
        return self._hoist_condition(choice, branches, condition, lines)

    def _merge_updates(self, branches: Branches, condition: Predicate) -> Lines:
        """Rewrite branches that update tensors in place, statement by statement."""
        choice = self.choice(condition)
        sides = [(branches.one, not condition.negated), (branches.other, condition.negated)]
        read_later = {*branches.written(self.site), *live_in(branches.other)}

        def old(key: str, value: cst.BaseExpression) -> cst.BaseExpression:
            """Return the value of `key` before the branch. Raises NotApplicable."""
            self._require_no_update(key, branches, value)
            return self.value_before(key, branches)

        lines = guard_updates(choice, sides, read_later, old)
        operands = [stored_operands(branch) for branch, _ in sides]
        local = names_bound(*branches.one, *branches.other)
        choice.agreement.assume_zero_gradients(operands[0], operands[1], local)
        self.tests.append(branches.test)
        return self._hoist_condition(choice, branches, condition, lines, changes=True)

    def _hoist_condition(
        self,
        choice: Choice,
        branches: Branches,
        condition: Predicate,
        lines: Lines,
        changes: bool = False,
    ) -> Lines:
        """Return `lines` with a name for the condition if it occurs several times.

        `changes` tells whether the lines update tensors in place. Eager code skips the lines where
        it skipped work.
        """
        if saves := saves_work(self.site, branches, choice.may_misfit):
            truth = condition.truth_of(choice.test)
            lines = skip_in_eager(self.site.document, truth, branches, lines)
            self.has_shortcut = True
        named = isinstance(choice.test, cst.Name) and not changes
        several = len(lines) > 1 or any(isinstance(line, cst.If) for line in lines)
        unused = not any(node is choice.test for line in lines for node in walk(line))
        if named or unused or (choice.uses < 2 and not saves and not (changes and several)):
            return lines
        copied = changes and not is_new_tensor(self.site, choice.test)  # it may be what is changed
        stem, method = (flag_name(choice.test), ".clone()") if copied else ("condition", "")
        name = self.site.document.unused_local(self.site.node, stem)
        edits: dict[cst.CSTNode, Replacement] = {choice.test: cst.Name(name)}
        first = build_statement(f"{{c}} = {{t}}{method}", c=name, t=choice.test)
        return [first, *(replace_nodes(line, edits) for line in lines)]

    def _require_private_names(
        self, choice: Choice, one: BranchValues, other: BranchValues
    ) -> None:
        """Raise NotApplicable where a name local to one branch is used elsewhere."""
        if shared := _shared_names(choice.test, one, other):
            raise NotApplicable(f"`{min(shared)}` is something else on each branch")

    def value_before(self, key: str, branches: Branches) -> cst.BaseExpression:
        """Return the value of `key` before the branch, as a node whose facts are recorded.

        Raises NotApplicable if it has none.
        """
        if key.endswith(ITEM):
            raise NotApplicable(f"only one branch sets `{key}`")
        if "." not in key and key not in names_bound_before(self.site.document, branches.node):
            raise NotApplicable(f"`{key}` has no value where the other branch is taken")
        new = cst.parse_expression(key)
        if "." in key:
            found = [
                n
                for one in (branches.node, *branches.rest)
                for n in walk(one)
                if dotted_name(n) == key
            ]
            seen = [infer(self.site, one) for one in found]
        else:
            seen = [infer_variable(self.site, key, branches.node)]
        if fact := next(filter(None, seen), None):
            self.known[new] = fact
        return new

    def _require_no_update(self, key: str, branches: Branches, *values: cst.BaseExpression) -> None:
        """Raise NotApplicable if later code updates `key` or its value in place.

        A value that `torch.where` copied would miss the update. Updates in the branches, in a later
        iteration of a loop, do not count, since the branches are rewritten.
        """
        aliases = {dotted_name(value) for value in values} | {key}
        after = branches.after(self.site)
        changed = aliases & set(names_mutated(*after))
        if changed:
            gone: dict[cst.CSTNode, Replacement] = {
                one: cst.RemoveFromParent() for one in (branches.node, *branches.rest)
            }
            others = [replace_nodes(one, gone) for one in after if one not in gone]
            changed &= set(names_mutated(*others))
        if changed - {""}:
            raise NotApplicable(f"`{min(changed - {''})}` is changed in place later")

    def choice(self, condition: Predicate) -> Choice:
        """Return the writer of `torch.where` for a condition."""
        bare = condition.tensor.with_changes(lpar=(), rpar=())
        agreement = Agreement(self.site, self.assumes, self.known)
        return Choice(self.site, bare, agreement, random=self.random)

    def _is_float_operand(self, key: str, branches: Branches) -> bool:
        """Return whether all later uses of a name are operands of floating-point tensors."""
        document = self.site.document
        uses = [
            one
            for later in branches.after(self.site)
            for one in walk(later)
            if isinstance(one, cst.Name) and one.value == key
        ]
        return bool(uses) and all(self._is_operand(document.parent(use), use) for use in uses)

    def _is_operand(self, parent: cst.CSTNode, use: cst.Name) -> bool:
        """Return whether a use is an operand of a floating-point tensor."""
        match parent:
            case cst.BinaryOperation():
                other = parent.left if parent.right is use else parent.right
            case cst.AugAssign(target=other) if parent.value is use:
                pass
            case _:
                return False
        seen = infer(self.site, other)
        return seen is not None and seen.is_tensor and all(t.is_float for t in seen.tensors)


def _shared_names(test: cst.CSTNode, one: BranchValues, other: BranchValues) -> frozenset[str]:
    """Return the names local to one branch that the test or the other branch uses too."""
    names = [set(names_bound(*when.local_lines)) for when in (one, other)]
    used = [names_read(*when.local_lines, *when.values.values()) for when in (one, other)]
    both = (names[0] & (names[1] | used[1])) | (names[1] & used[0])
    return frozenset(both | ((names[0] | names[1]) & names_read(test)))


def order_branches(condition: Predicate, one: Branch, other: Branch) -> tuple[Branch, Branch]:
    """Return (branch taken if `condition.tensor` is true, branch taken if it is false).

    `one` is taken if the condition holds, so it comes second if the condition negates the tensor.
    """
    return (other, one) if condition.negated else (one, other)
