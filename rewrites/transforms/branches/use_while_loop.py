"""Rewrite a data-dependent `while` with `torch.while_loop`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst

from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    assigned_values,
    infer_variable,
    is_new_tensor,
    live_in,
    names_bound,
    names_bound_before,
    names_mutated,
    names_read,
    side_effect_of,
    statements_after,
    walk,
)
from fullgraph.rewrites.source import build_expression, build_statement, replace_nodes
from fullgraph.rewrites.transforms.branches.agreement import Agreement, used_names
from fullgraph.rewrites.transforms.branches.assignments import OPERATORS
from fullgraph.rewrites.transforms.branches.block_lines import lost_comments
from fullgraph.rewrites.transforms.branches.predicate import predicate_of
from fullgraph.rewrites.transforms.branches.use_cond import last_assigned, separate_functions

_JUMPS = cst.Return | cst.Raise | cst.Break | cst.Continue
_GROWING = cst.Multiply | cst.Power | cst.LeftShift
"""Operators by which a number outgrows 64 bits within a few hundred iterations."""


@dataclass
class WhileLoopWriter:
    """Writer of one loop as `while_loop`; `assumes` collects assumptions."""

    site: Site
    node: cst.While
    assumes: dict[str, None] = field(default_factory=dict)

    def lines(self) -> list[cst.BaseStatement]:
        """Return the statements that replace the loop. Raises NotApplicable."""
        self._require_assignments()
        carried = self._carried_names()
        facts = {name: self._seen_variable(name) for name in carried}
        self._require_unchanged_later([name for name in carried if facts[name].is_tensor])
        counters = [name for name in carried if facts[name].is_number]
        condition = self._condition_tensor(counters)
        body = replace_nodes(self.node.body, self._rewrite_counter(counters)).body
        self._require_bounded(counters, body)
        results = [self._next_value(name, facts[name]) for name in carried]
        names, given = (
            ", ".join(carried),
            ", ".join(self._initial_value(n, facts[n]) for n in carried),
        )
        comma = "," if len(carried) == 1 else ""
        torch = self.site.document.torch
        target = f"({names},)" if len(carried) == 1 else names
        short = self._single_value(carried, results)
        if short is not None and not lost_comments(self.node, []):
            call = build_expression(
                f"{torch}.while_loop(lambda {names}: {{t}}, lambda {names}: ({{v}},), ({given},))",
                t=condition,
                v=short,
            )
            lines = [build_statement(f"{target} = {{call}}", call=call)]
        else:
            going, step = (
                self.site.document.unused_local(self.site.node, stem)
                for stem in ("unfinished", "step")
            )
            parts = {f"v{i}": value for i, value in enumerate(results)}
            returned = ", ".join(f"{{{part}}}" for part in parts) + comma
            function = build_statement(f"def {step}({names}):\n    pass\n")
            last = build_statement(f"return {returned}", **parts)
            lines = separate_functions(
                [
                    build_statement(f"def {going}({names}):\n    return {{t}}\n", t=condition),
                    function.with_changes(body=cst.IndentedBlock([*body, last])),
                    build_statement(
                        f"{target} = {torch}.while_loop({going}, {step}, ({given}{comma}))"
                    ),
                ]
            )
        ahead = list(self.node.leading_lines)
        if isinstance(lines[0], cst.FunctionDef) and not self._is_first():
            ahead.insert(0, cst.EmptyLine(indent=False))
        first = lines[0].with_changes(leading_lines=ahead)
        return [first, *lines[1:]]

    def _require_assignments(self) -> None:
        """Raise NotApplicable where the body does more than assign names."""
        if self.node.orelse is not None:
            raise NotApplicable("it has an `else`")
        if any(isinstance(one, _JUMPS) for one in walk(self.node.body)):
            raise NotApplicable("the loop is left from within its body")
        if reason := side_effect_of(self.site, self.node.test, self.node.body, random=True):
            raise NotApplicable(
                f"a round of `torch.while_loop` must not change anything, and {reason}"
            )
        if any("." in name for name in names_bound(self.node.body)):
            raise NotApplicable("the loop assigns to attributes")
        agreement = Agreement(self.site)
        used = used_names([self.node.test, *self.node.body.body], skip_bound=False)
        if any(agreement.may_require_grad(one) for one in used.values()):
            raise NotApplicable("the gradients of `torch.while_loop` are not those of the loop")

    def _carried_names(self) -> list[str]:
        """Return the names that carry values between iterations or out of the loop."""
        document = self.site.document
        after = live_in(
            one for one in statements_after(document, self.node) if one is not self.node
        )
        needed = live_in([self.node]) | after | names_read(self.node.test)
        carried = [name for name in names_bound(self.node.body) if name in needed]
        missing = set(carried) - names_bound_before(document, self.node)
        if missing:
            raise NotApplicable(f"`{min(missing)}` has no value if the loop does not run")
        if not carried:
            raise NotApplicable("nothing that it assigns is used later")
        for name in carried:
            if (
                name in after
                and (fact := infer_variable(self.site, name, self.node))
                and fact.is_number
            ):
                self.assumes[f"a tensor may take the place of the number `{name}`"] = None
        return carried

    def _require_unchanged_later(self, tensors: list[str]) -> None:
        """Raise NotApplicable where a tensor from before the loop would be changed after it.

        Without an iteration the loop leaves that tensor, and `torch.while_loop` returns another.
        """
        later = [
            one for one in statements_after(self.site.document, self.node) if one is not self.node
        ]
        used = used_names([self.node.test, *self.node.body.body], skip_bound=False)
        for name in {*tensors} & {*names_mutated(*later)}:
            values = assigned_values(self.site.document, used[name]) if name in used else []
            if not values or not all(v and is_new_tensor(self.site, v) for v in values):
                raise NotApplicable(
                    f"`{name}` is changed in place later, and is another tensor if the loop does "
                    f"not run"
                )

    def _seen_variable(self, name: str) -> ValueSummary:
        """Return the facts of a carried variable. Raises NotApplicable if it cannot be carried."""
        seen = infer_variable(self.site, name, self.node)
        if seen is None:
            raise NotApplicable(f"it is not known what `{name}` is")
        whole = seen.types == ("int",)
        if not whole and not seen.is_tensor:
            raise NotApplicable(f"`{name}` is neither a tensor nor an integer")
        if whole and self._condition_devices() - {"cpu", "meta"}:
            raise NotApplicable(
                f"the number `{name}` would have to be on the device of the tensors"
            )
        return seen

    def _require_bounded(self, counters: list[str], body: Sequence[cst.CSTNode]) -> None:
        """Raise NotApplicable for a counter that may outgrow 64 bits, as no int of Python does.

        It may if `body` multiplies it, and the loop's test does not compare it.
        """
        compared = {
            side.value
            for part in _conjuncts(self.node.test)
            if isinstance(part, cst.Comparison)
            for side in (part.left, *(one.comparator for one in part.comparisons))
            if isinstance(side, cst.Name)
        }
        for name in [one for one in counters if one not in compared]:
            if any(_multiplies(one, name) for line in body for one in walk(line)):
                raise NotApplicable(f"`{name}` may outgrow the 64 bits of a tensor")

    def _condition_devices(self) -> set[str]:
        """Return the devices of the tensors in the condition."""
        found = (self.site.observed(node) for node in walk(self.node.test))
        return {tensor.device for seen in found if seen for tensor in seen.tensors}

    def _initial_value(self, name: str, seen: ValueSummary) -> str:
        return f"{self.site.document.torch}.tensor({name})" if seen.is_number else name

    def _rewrite_counter(self, counters: list[str]) -> dict[cst.CSTNode, cst.CSTNode]:
        """Rewrite a counter's `n += 1` as `n = n + 1`, since a tensor would change in place."""
        edits: dict[cst.CSTNode, cst.CSTNode] = {}
        for one in walk(self.node.body):
            if isinstance(one, cst.AugAssign) and isinstance(one.target, cst.Name):
                operator = OPERATORS.get(type(one.operator))
                if one.target.value not in counters or operator is None:
                    raise NotApplicable(
                        f"`{self.site.document.code(one)}` changes a tensor in place"
                    )
                sign = cst.Module([]).code_for_node(operator())
                value = build_expression(f"{one.target.value}{sign}{{v}}", v=one.value)
                edits[one] = cst.Assign([cst.AssignTarget(one.target)], value)
        return edits

    def _is_first(self) -> bool:
        """Return whether the loop is the first statement of its block."""
        block = self.site.document.parent(self.node)
        return isinstance(block, cst.IndentedBlock) and block.body[0] is self.node

    def _condition_tensor(self, counters: list[str]) -> cst.BaseExpression:
        """Return the condition as one tensor; comparisons of counters become tensor comparisons."""
        condition = self.node.test
        parts = _conjuncts(condition)
        made: list[cst.BaseExpression] = []
        for part in parts:
            found = predicate_of(self.site, part)
            if found is not None and found.guard is None:
                bare = found.tensor.with_changes(lpar=(), rpar=())
                made.append(build_expression("~{t}", t=bare) if found.negated else bare)
            elif (
                found is None
                and isinstance(part, cst.Comparison)
                and names_read(part) & {*counters}
            ):
                made.append(part)
            else:
                raise NotApplicable("Python decides a part of its test")
        joined = made[0]
        for part in made[1:]:
            joined = build_expression("{a} & {b}", a=joined, b=part)
        return joined

    def _next_value(self, name: str, seen: ValueSummary) -> cst.BaseExpression:
        """Return the expression for a name's value at the end of an iteration.

        Assumes that the value keeps the dtype and shape in `seen` if that is unknown.
        """
        new: cst.BaseExpression = cst.Name(name)
        made = last_assigned(new, list(self.node.body.body))
        if seen.is_tensor:
            old = cst.Name(name)
            agreement = Agreement(self.site, self.assumes, {old: seen})
            agreement.check_pair(made, old, numbers=False)
            if made is new or not is_new_tensor(self.site, made):
                return build_expression("{n}.clone()", n=new)
        return new

    def _single_value(
        self, carried: list[str], results: list[cst.BaseExpression]
    ) -> cst.BaseExpression | None:
        """Return the assigned value if the body is one assignment; else None."""
        match self.node.body.body, results:
            case [cst.SimpleStatementLine(body=[cst.Assign(targets=[_], value=value)])], [
                cst.Name()
            ] if len(carried) == 1:
                return value
        return None


def _multiplies(node: cst.CSTNode, name: str) -> bool:
    """Return whether a statement assigns to `name` a multiple or a power of what it was."""
    return (
        isinstance(node, cst.Assign)
        and name in names_bound(node)
        and any(
            isinstance(part, cst.BinaryOperation)
            and isinstance(part.operator, _GROWING)
            and name in names_read(part)
            for part in walk(node.value)
        )
    )


def _conjuncts(condition: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return `a`, `b` and `c` for `a and b and c`; any other condition as the only item."""
    if isinstance(condition, cst.BooleanOperation) and isinstance(condition.operator, cst.And):
        return [*_conjuncts(condition.left), *_conjuncts(condition.right)]
    return [condition]
