"""Rewrite branches with `torch.cond`, which computes one branch, as eager does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import libcst as cst

from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    assignment_targets,
    infer,
    is_new_tensor,
    live_in,
    names_bound,
    side_effect_of,
    walk,
)
from fullgraph.rewrites.source import Replacement, build_expression, build_statement, dotted_name
from fullgraph.rewrites.transforms.branches import early_return as early
from fullgraph.rewrites.transforms.branches.agreement import Agreement, used_names
from fullgraph.rewrites.transforms.branches.assignments import (
    RETURN,
    require_once,
    statements_of,
    values_assigned,
)
from fullgraph.rewrites.transforms.branches.block_lines import Lines, guard_with, lost_comments
from fullgraph.rewrites.transforms.branches.branches import Branches
from fullgraph.rewrites.transforms.branches.layouts import transposed_names, transpositions
from fullgraph.rewrites.transforms.branches.predicate import Predicate
from fullgraph.rewrites.transforms.branches.use_where import WhereWriter, order_branches

_JUMPS = cst.Return | cst.Raise | cst.Break | cst.Continue


@dataclass
class CondWriter:
    """Writer of one conditional as `torch.cond`; `assumes` collects assumptions."""

    site: Site
    assumes: dict[str, None] = field(default_factory=dict)
    known: dict[cst.CSTNode, ValueSummary] = field(default_factory=dict)
    """Observed values of expressions that the edit creates."""

    def ternary(self, node: cst.IfExp, condition: Predicate) -> cst.BaseExpression:
        """Write a conditional expression as `torch.cond`."""
        one, other = order_branches(condition, node.body, node.orelse)
        made = self._cond_call(condition, *self._as_lambdas(one, other))
        self._require_agreement(one, other)
        self._require_same_gradients([one], [other])
        Agreement(self.site, self.assumes).assume_zero_gradients([one], [other])
        if condition.guard is None:
            return made
        branches = (one, made) if condition.disjunction else (made, other)
        return cst.IfExp(condition.guard, *branches)

    def branch(self, branches: Branches, condition: Predicate) -> Lines:
        """Write an `if` statement as `torch.cond` over the variables that it assigns."""
        both = [*branches.one, *branches.other]
        returns = any(isinstance(one, cst.Return) for branch in both for one in walk(branch))
        names = [RETURN] if returns else branches.written(self.site)
        if not names:
            raise NotApplicable("nothing that it assigns is used later")
        one, other = order_branches(condition, branches.one, branches.other)
        lines = self._cond_statements(branches, condition, names, one, other)
        if condition.guard is None:
            return lines
        kept = (one, lines) if condition.disjunction else (lines, other)
        return [guard_with(condition.guard, *kept)]

    def early(self, node: cst.If, condition: Predicate) -> dict[cst.CSTNode, Replacement]:
        """Return the edits that write an early return as `torch.cond`.

        Its other branch is the code after the early return.
        """
        if condition.guard is not None:
            raise NotApplicable("a test of Python and one of a tensor decide on more than a result")
        after = early.statements_after(self.site, node)
        body = statements_of(node.body)
        both = Branches(node, body, [*after.statements, after.line])
        lines = self._cond_statements(
            both, condition, [RETURN], *order_branches(condition, both.one, both.other)
        )
        kept = [*node.leading_lines, *lost_comments(node, lines)]
        first = lines[0].with_changes(leading_lines=kept)
        gone: dict[cst.CSTNode, Replacement] = {
            one: cst.RemoveFromParent() for one in (*after.statements, after.line)
        }
        return {node: cst.FlattenSentinel([first, *lines[1:]]), **gone}

    def _cond_statements(
        self,
        branches: Branches,
        condition: Predicate,
        names: list[str],
        one: Sequence[cst.CSTNode],
        other: Sequence[cst.CSTNode],
    ) -> Lines:
        """Return the definitions of the two branch functions, and the call of `torch.cond`.

        The call assigns `names`, which may be [RETURN]. Branches that only assign become lambdas.
        """
        self._require_same_gradients(one, other)
        Agreement(self.site, self.assumes).assume_zero_gradients(one, other)
        values = [self._branch_values(branches, names, branch) for branch in (one, other)]
        left, right = values
        if left is not None and right is not None:
            for a, b in zip(left, right, strict=True):
                self._require_agreement(a, b)
            lambdas = self._as_lambdas(_pack(left), _pack(right))
            return [_bind_result(names, self._cond_call(condition, *lambdas))]
        operands = sorted({n for branch in (one, other) for n in _names_rebound(branch)})
        functions = [self._branch_function(branches, names, branch) for branch in (one, other)]
        fresh_names = [
            self.site.document.unused_local(self.site.node, stem)
            for stem in ("if_true", "if_false")
        ]
        sources = [[last_assigned(one, body) for one in results] for body, results in functions]
        made: Lines = []
        for n, (called, (body, results)) in enumerate(zip(fresh_names, functions, strict=True)):
            packed = _pack(self._results(body, results, sources[n], sources[1 - n]))
            header = build_statement(f"def {called}({', '.join(operands)}):\n    pass\n")
            lines = [*body, build_statement("return {v}", v=packed)]
            made.append(header.with_changes(body=cst.IndentedBlock(lines)))
        given = f", ({', '.join(operands)},)" if operands else ""
        call = build_expression(
            f"{self._torch}.cond({{t}}, {fresh_names[0]}, {fresh_names[1]}{given})",
            t=condition.tensor,
        )
        for a, b in zip(*sources, strict=False):
            self._require_agreement(a, b)
        return separate_functions([*made, _bind_result(names, call)])

    def _branch_values(
        self, branches: Branches, names: list[str], branch: Sequence[cst.CSTNode]
    ) -> list[cst.BaseExpression] | None:
        """Return the value that a branch assigns to each name; None if it does more than assign."""
        try:
            made = values_assigned(self.site, branch, frozenset(names))
            require_once(made.values.values(), made.values.values())
        except NotApplicable:
            return None
        if made.local_lines:
            return None
        selection = WhereWriter(self.site, known=self.known)
        return [made.values.get(n) or selection.value_before(n, branches) for n in names]

    def _branch_function(
        self, branches: Branches, names: list[str], branch: Sequence[cst.CSTNode]
    ) -> tuple[Lines, list[cst.BaseExpression]]:
        """Return the body of a branch's local function without its return, and its results."""
        body: Lines = list(branch)  # type: ignore[arg-type]
        leaves_early = [one for line in body for one in walk(line) if isinstance(one, _JUMPS)]
        results: list[cst.BaseExpression] = []
        if names == [RETURN]:
            last = body[-1] if body else None
            final = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else None
            if not isinstance(final, cst.Return) or len(leaves_early) != 1 or final.value is None:
                raise NotApplicable("one branch does not end in a return of its own")
            body = body[:-1]
            results = [final.value]
        elif leaves_early:
            raise NotApplicable("the branch leaves the block")
        else:
            selection = WhereWriter(self.site, known=self.known)
            own = set(names_bound(*body))
            results = [
                cst.parse_expression(n) if n in own else selection.value_before(n, branches)
                for n in names
            ]
        self._require_pure(*body, *results)
        if any("." in n for n in names_bound(*body)):
            raise NotApplicable("the branch assigns to attributes")
        return body, results

    def _results(
        self,
        body: Lines,
        results: list[cst.BaseExpression],
        sources: list[cst.BaseExpression],
        others: list[cst.BaseExpression],
    ) -> list[cst.BaseExpression]:
        """Return the results of a branch's local function, as tensors of its own.

        `sources` are the expressions that they come from, and `others` those of the other branch.
        """
        return [
            self._own_result(
                one,
                source,
                other,
                is_new=self._is_new(one, body) and not _is_same_result(one, results, body),
            )
            for one, source, other in zip_longest(results, sources, others[: len(results)])
        ]

    def _as_lambdas(
        self, one: cst.BaseExpression, other: cst.BaseExpression
    ) -> list[cst.BaseExpression]:
        """Return `lambda: value` for both values, in which tensors that may alias are cloned."""
        lambdas = []
        for value, beside in ((one, other), (other, one)):
            self._require_pure(value)
            items = _items_of(value)
            items = [
                self._own_result(own, own, there, is_new=is_new_tensor(self.site, own))
                for own, there in zip_longest(items, _items_of(beside)[: len(items)])
            ]
            made = _pack(items) if _is_tuple(value) else items[0]
            lambdas.append(build_expression("lambda: {v}", v=made))
        return lambdas

    def _own_result(
        self,
        value: cst.BaseExpression,
        source: cst.BaseExpression,
        other: cst.BaseExpression | None,
        is_new: bool,
    ) -> cst.BaseExpression:
        """Return the result `value` of a branch as a tensor that is new and strided like `other`.

        `source` is the expression that computes it, and `other` that of the other branch.
        """
        seen = infer(self.site, source)
        has_order = seen is None or any(n > 1 for n in seen.dims)
        own = transpositions(self.site, source) if has_order else frozenset()
        if own and (other is None or transpositions(self.site, other) != own):
            copy = f".clone(memory_format={self._torch}.contiguous_format)"
            return build_expression("{v}.contiguous()" if is_new else "{v}" + copy, v=value)
        return value if is_new else build_expression("{v}.clone()", v=value)

    def _require_pure(self, *nodes: cst.CSTNode) -> None:
        """Raise NotApplicable for side effects, and for random numbers that need a gradient."""
        if reason := side_effect_of(self.site, *nodes, random=True):
            raise NotApplicable(f"a branch of `torch.cond` must not change anything, and {reason}")
        if side_effect_of(self.site, *nodes) and self._may_require_grad(nodes):
            # its backward runs the branch again, and draws again
            raise NotApplicable("the gradient would be that of other random numbers")

    def _may_require_grad(self, nodes: Sequence[cst.CSTNode]) -> bool:
        """Return whether an operand of the nodes may require grad."""
        agreement = Agreement(self.site)
        return any(agreement.may_require_grad(one) for one in used_names(nodes).values())

    def _require_agreement(self, one: cst.BaseExpression, other: cst.BaseExpression) -> None:
        """Raise NotApplicable where the results of the branches differ in dtype or shape."""
        agreement = Agreement(self.site, self.assumes, self.known)
        for a, b in zip(_items_of(one), _items_of(other), strict=False):
            agreement.check_pair(a, b, numbers=False)

    def _require_same_gradients(
        self, one: Sequence[cst.CSTNode], other: Sequence[cst.CSTNode]
    ) -> None:
        """Raise NotApplicable if the gradients of an operand differ in the order of strides."""
        differ = {
            n for n, _ in transposed_names(self.site, one) ^ transposed_names(self.site, other)
        }
        for name, node in used_names([*one, *other]).items():
            if name in differ and Agreement(self.site).may_require_grad(node):
                raise NotApplicable(
                    f"the branches of `torch.cond` transpose `{name}` differently, and so would be "
                    "its gradients"
                )

    def _cond_call(
        self, condition: Predicate, one: cst.BaseExpression, other: cst.BaseExpression
    ) -> cst.BaseExpression:
        """Return the call of `torch.cond`."""
        code = f"{self._torch}.cond({{t}}, {{a}}, {{b}})"
        return build_expression(code, t=condition.tensor, a=one, b=other)

    @property
    def _torch(self) -> str:
        """The name of torch in the file."""
        return self.site.document.torch

    def _is_new(self, value: cst.BaseExpression, body: Sequence[cst.CSTNode]) -> bool:
        """Return whether a result shares no memory with earlier values."""
        if _is_tuple(value):
            return all(self._is_new(one, body) for one in _items_of(value))
        found = [
            one
            for line in body
            for one in walk(line)
            if isinstance(one, cst.Assign)
            and dotted_name(value) in map(dotted_name, assignment_targets(one))
        ]
        return is_new_tensor(self.site, value) or (
            bool(found) and all(is_new_tensor(self.site, one.value) for one in found)
        )


def _names_rebound(branch: Sequence[cst.CSTNode]) -> set[str]:
    """Return the outer names that a branch reads and then rebinds: they become parameters."""
    return {n for n in live_in(branch) & set(names_bound(*branch)) if "." not in n}


def _bind_result(names: list[str], call: cst.BaseExpression) -> cst.BaseStatement:
    """Return `a, b = call` for `names` a and b.

    If `names` is [RETURN], which stands for the function's result, return `return call`.
    """
    if names == [RETURN]:
        return build_statement("return {v}", v=call)
    return build_statement(f"{', '.join(names)} = {{v}}", v=call)


def _is_tuple(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Tuple)


def _items_of(value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the items of a tuple; for any other value, a list of that value."""
    if isinstance(value, cst.Tuple):
        return [element.value for element in value.elements]
    return [value]


def _pack(values: Sequence[cst.BaseExpression]) -> cst.BaseExpression:
    """Return several values as a tuple; a single value unchanged."""
    if len(values) == 1:
        return values[0]
    return cst.Tuple(
        [cst.Element(value) for value in values], [cst.LeftParen()], [cst.RightParen()]
    )


def last_assigned(value: cst.BaseExpression, body: Sequence[cst.CSTNode]) -> cst.BaseExpression:
    """Return the expression that `body` assigns last to the name or attribute `value`.

    `value` itself if `body` does not assign to it.
    """
    for line in reversed(body):
        for one in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            match one:
                case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple() as target)]):
                    if isinstance(one.value, cst.Tuple):
                        for left, right in zip(target.elements, one.value.elements, strict=False):
                            if dotted_name(left.value) == dotted_name(value):
                                return right.value
                case cst.Assign() if dotted_name(value) in map(
                    dotted_name, assignment_targets(one)
                ):
                    return one.value
    return value


def _is_same_result(
    value: cst.BaseExpression, results: Sequence[cst.BaseExpression], body: Sequence[cst.CSTNode]
) -> bool:
    """Return whether `value`, one of `results`, is the same tensor as an earlier one of them.

    True for `k` if the results are `q, k` and the `body` that computes them is `q = k = f(x)`.
    """
    earlier = results[: [one is value for one in results].index(True)]
    return any(last_assigned(one, body) is last_assigned(value, body) for one in earlier)


def separate_functions(lines: Lines) -> Lines:
    """Return the lines with an empty line before each but the first."""
    empty = cst.EmptyLine(indent=False)
    return [lines[0], *(line.with_changes(leading_lines=[empty]) for line in lines[1:])]
