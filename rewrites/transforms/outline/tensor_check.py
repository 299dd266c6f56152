"""Checks on tensors, and their conditions as 0-d tensors that a graph can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import libcst as cst

from fullgraph.rewrites.analysis import Site, assigned_value, find_definitions, infer, walk
from fullgraph.rewrites.source import build_expression, dotted_name
from fullgraph.rewrites.transforms.outline.operator import Statement, chain_of
from fullgraph.rewrites.transforms.outline.outlined_statement import find_outlined_statement
from fullgraph.rewrites.transforms.outline.output_calls import is_check_statement
from fullgraph.rewrites.transforms.outline.parameter_types import strip_item

_OPPOSITE: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.LessThan: cst.GreaterThanEqual,
    cst.LessThanEqual: cst.GreaterThan,
    cst.GreaterThan: cst.LessThanEqual,
    cst.GreaterThanEqual: cst.LessThan,
    cst.Equal: cst.NotEqual,
    cst.NotEqual: cst.Equal,
}
_CONDITIONS = (
    cst.BinaryOperation
    | cst.BooleanOperation
    | cst.Comparison
    | cst.ComparisonTarget
    | cst.UnaryOperation
)
"""Parts of a condition that work with 0-d tensors as they do with numbers."""


@dataclass(frozen=True)
class TensorCheck:
    """A check, with the numbers in its condition that become tensors."""

    site: Site
    statement: Statement
    numbers: Mapping[str, _Number] = field(default_factory=dict)
    """Numbers that only the check uses, by name."""

    @property
    def edits(self) -> dict[cst.CSTNode, cst.CSTNode]:
        """The edits by which the numbers become tensors."""
        return {one.call: one.tensor for one in self.numbers.values()}


@dataclass(frozen=True)
class _Number:
    """A number that is the value of a 0-d tensor."""

    call: cst.Call
    """The conversion, `int(t)`."""
    tensor: cst.BaseExpression


def find_tensor_check(site: Site) -> TensorCheck | None:
    """Return the check that is the site's statement, or alone uses the number it computes.

    An `if` that raises is one whatever its `elif` and `else` do.
    """
    statement = find_outlined_statement(site, is_check_statement)
    here = site.statement
    if isinstance(here, cst.If) and statement in (None, *chain_of(site.document, here)):
        raises = is_check_statement(site, here.with_changes(orelse=None))
        statement = here if raises else statement
    if statement is not None:
        return TensorCheck(site, statement, _numbers_for(site, statement))
    match site.statement:
        case cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(cst.Name() as name)])]):
            definitions = find_definitions(site.document, name)
        case _:
            return None
    uses = definitions.uses(name) if definitions is not None else []
    there = replace(site, node=uses[0]) if uses else None
    statement = find_outlined_statement(there, is_check_statement) if there is not None else None
    numbers = _numbers_for(site, statement) if statement is not None else {}
    if statement is None or name.value not in numbers:
        return None
    return TensorCheck(site, statement, numbers)


def _numbers_for(site: Site, statement: Statement) -> dict[str, _Number]:
    """Return the numbers that only the check `statement` uses, by name.

    The check only compares them and shows them in f-strings, so they may as well be tensors.
    """
    definitions = find_definitions(site.document, statement)
    if definitions is None:
        return {}
    inside = set(walk(statement))
    found: dict[str, _Number] = {}
    for use, bindings in definitions.reaching.items():
        if use not in inside or len(bindings) != 1:
            continue
        (binding,) = bindings
        call = assigned_value(site.document, binding)
        tensor = _converted_tensor(site, call) if isinstance(call, cst.Call) else None
        uses = definitions.uses(binding)
        accepted = all(one in inside and _accepts_tensor(site, statement, one) for one in uses)
        if isinstance(call, cst.Call) and tensor is not None and accepted:
            found[use.value] = _Number(call, tensor)
    return found


def _converted_tensor(site: Site, call: cst.Call) -> cst.BaseExpression | None:
    """Return the 0-d tensor `t` for `t.item()`, `float(t)`, `bool(t)`, and `int(t)` of integers."""
    inner = strip_item(site, call)
    if inner is not call:
        return inner
    if dotted_name(call.func) not in ("int", "float", "bool") or len(call.args) != 1:
        return None
    tensor = strip_item(site, call.args[0].value)
    seen = site.observed(tensor)
    if seen is None or not seen.is_tensor or seen.dims != {0}:
        return None
    truncates = dotted_name(call.func) == "int" and any(t.is_float for t in seen.tensors)
    return None if truncates else tensor


def _accepts_tensor(site: Site, statement: Statement, use: cst.Name) -> bool:
    """Whether a number in a check can as well be a 0-d tensor where `use` stands."""
    node: cst.CSTNode = use
    parent = site.document.parent(node)
    if isinstance(parent, cst.FormattedStringExpression):
        return parent.conversion is None
    while isinstance(parent, _CONDITIONS):
        node, parent = parent, site.document.parent(parent)
    return node is getattr(statement, "test", None) or isinstance(parent, cst.Assert)


def tensor_condition(
    check: TensorCheck, test: cst.BaseExpression, *, negated: bool = False
) -> cst.BaseExpression | None:
    """Return an expression for a 0-d bool tensor with the truth value of a condition.

    For `x.any() and y.any()` it is `x.any() & y.any()`. None if a part of the condition is not
    known to be a 0-d tensor. With `negated`, the tensor has the opposite truth value.
    """
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return tensor_condition(check, test.expression, negated=not negated)
    if isinstance(test, cst.BooleanOperation):
        left = tensor_condition(check, test.left, negated=negated)
        right = tensor_condition(check, test.right, negated=negated)
        if left is None or right is None:
            return None
        both = isinstance(test.operator, cst.And) is not negated
        form = "{left} & {right}" if both else "{left} | {right}"
        match left, right:  # `~(a | b)` rather than `~a & ~b`
            case (
                cst.UnaryOperation(cst.BitInvert(), cst.BaseExpression() as one),
                cst.UnaryOperation(cst.BitInvert(), cst.BaseExpression() as other),
            ) if negated:
                form = "~({left} | {right})" if both else "~({left} & {right})"
                left, right = one, other
        return build_expression(form, left=left, right=right)
    if (found := _tensor_of_condition(check, test)) is None:
        return None
    tensor, is_bool = found
    if not negated:
        return tensor if is_bool else build_expression("{t} != 0", t=tensor)
    if (opposite := _opposite_comparison(check.site, tensor)) is not None:
        return opposite
    return build_expression("~{t}" if is_bool else "{t} == 0", t=tensor)


def _opposite_comparison(site: Site, test: cst.BaseExpression) -> cst.Comparison | None:
    """Return `a < b` for `a >= b` between integers; None for others, which may be NaN."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    (target,) = test.comparisons
    opposite = _OPPOSITE.get(type(target.operator))
    for side in (test.left, target.comparator):
        if isinstance(side, cst.Integer):
            continue
        seen = site.observed(side)
        if seen is None or "float" in seen.types or any(t.is_float for t in seen.tensors):
            return None
    if opposite is None:
        return None
    return test.with_changes(comparisons=[target.with_changes(operator=opposite())])


def _tensor_of_condition(
    check: TensorCheck, test: cst.BaseExpression
) -> tuple[cst.BaseExpression, bool] | None:
    """Return a 0-d tensor with the truth value of a condition, and whether its dtype is bool.

    For `x.item() > 0` the result is the expression `x > 0` and True. None if no such tensor is
    known.
    """
    site = check.site
    if isinstance(test, cst.Name) and test.value in check.numbers:
        seen = site.observed(check.numbers[test.value].tensor)
        return test, seen is not None and seen.dtypes == {"bool"}
    seen = infer(site, test)
    if seen is not None and seen.is_tensor:
        return (test, seen.dtypes == {"bool"}) if seen.dims == {0} else None
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        operator = test.comparisons[0]
        left, right = strip_item(site, test.left), strip_item(site, operator.comparator)
        names = {one.value for one in walk(test) if isinstance(one, cst.Name)}
        same = left is test.left and right is operator.comparator
        if same and not names & check.numbers.keys():
            return None
        compared = operator.with_changes(comparator=right)
        return test.with_changes(left=left, comparisons=[compared]), True
    if isinstance(test, cst.Call):
        return _tensor_of_call(check, test)
    return None


def _tensor_of_call(check: TensorCheck, call: cst.Call) -> tuple[cst.BaseExpression, bool] | None:
    """Return a 0-d tensor with the truth value of a call, and whether its dtype is bool.

    For `torch.equal(a, b)` it is `(a == b).all()`. None if no such tensor is known.
    """
    site = check.site
    if (inner := strip_item(site, call)) is not call:
        return _tensor_of_condition(check, inner)
    torch = site.document.torch
    match site.callee_name(call):
        case "bool" if len(call.args) == 1:
            return _tensor_of_condition(check, call.args[0].value)
        case "torch.allclose":
            close = call.with_changes(func=build_expression(f"{torch}.isclose"))
            return build_expression("{close}.all()", close=close), True
        case "torch.equal" if len(call.args) == 2:
            a, b = (argument.value for argument in call.args)
            if a.deep_equals(b) and site.is_tensor(a):
                return build_expression("~{a}.isnan().any()", a=a), True
            shapes = [
                seen.shapes for seen in (site.observed(a), site.observed(b)) if seen is not None
            ]
            if len(shapes) == 2 and len(shapes[0]) == 1 and shapes[0] == shapes[1]:
                return build_expression("({a} == {b}).all()", a=a, b=b), True
    return None
