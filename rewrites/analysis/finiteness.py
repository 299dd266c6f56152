"""Operations that may yield inf, NaN or an infinite gradient.

`torch.where` sends a zero gradient into the branch that is not selected, and 0 * inf is NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import libcst as cst

from fullgraph.rewrites.analysis.classes import (
    called_function,
    class_of,
    default_value,
    method_of_class,
)
from fullgraph.rewrites.analysis.definitions import assigned_values
from fullgraph.rewrites.analysis.gradients import has_no_gradient
from fullgraph.rewrites.analysis.inferred import infer, is_tensor
from fullgraph.rewrites.analysis.operation import Operation, operation_of
from fullgraph.rewrites.analysis.purity import torch_name
from fullgraph.rewrites.analysis.site import Site
from fullgraph.rewrites.analysis.torch_names import INDEXING, PURE_CALLS, RAISING, word_set
from fullgraph.rewrites.source import walk

_DIVISIONS = word_set("div floor_divide fmod remainder")
_AT_ONE = word_set(
    """
    log log10 log1p log2 reciprocal rsqrt sqrt
    """
)
"""Operators whose result and gradient are finite at 1."""
_AT_ZERO = word_set(
    """
    acos arccos arcsin asin atanh cosh erfinv exp exp2 expm1 sinh tan
    """
)
"""Operators whose result and gradient are finite at 0."""
_NOWHERE = word_set(
    """
    acosh addcdiv atan2 binary_cross_entropy cdist cholesky cosine_similarity cross_entropy
    cumprod det digamma dist eig eigh float_power hypot inv inverse lgamma logdet logit
    lstsq nll_loss pinv pow prod qr slogdet solve std std_mean svd var xlogy
    """
)
"""Operators for which no single operand makes result and gradient finite."""
_INDICES = word_set(
    """
    argmax argmin argsort
    """
)
"""Operators whose results are indices, and have no gradient."""
_LINEAR = word_set(
    """
    abs add all any ceil clamp clamp_max clamp_min clip clone contiguous detach eq expand
    flatten float floor full full_like ge gt hardtanh isfinite isinf isnan le logical_and
    bitwise_and bitwise_not bitwise_or logical_not logical_or lt masked_fill maximum minimum
    nan_to_num ne neg ones ones_like permute positive relu relu6 reshape round sigmoid sign
    squeeze sub tanh to transpose unsqueeze view where zeros zeros_like
    """
)
"""Operators that keep finite values finite and gradients bounded."""
_DTYPE_LIMITS = ("torch.finfo", "torch.iinfo")


class NeutralValue(StrEnum):
    """Value to put in place of an operand to avoid inf and NaN, such as 1 for `b` in `a / b`.

    It is used for elements whose result is masked out.
    """

    ONE = "1"
    ZERO = "0"


@dataclass(frozen=True)
class Hazard:
    """Operation that may yield inf, NaN or an infinite gradient, or raise IndexError."""

    operation: cst.BaseExpression
    operand: cst.BaseExpression
    neutral: NeutralValue | None
    """A value of `operand` that is free of the hazard; None if there is none."""


def find_hazards(site: Site, *nodes: cst.CSTNode) -> tuple[Hazard, ...]:
    """Return the operations that may yield inf, NaN or an infinite gradient, or raise.

    They raise an IndexError if an index is out of range.
    """
    return tuple(hazard for node in nodes for hazard in _hazards(site, node))


def has_nan_free_gradient(site: Site, *nodes: cst.CSTNode) -> bool:
    """Return whether the gradients of `nodes` are never NaN, even for inf or NaN operands.

    True for sums, comparisons, clamping, selecting and products with a literal; else False.
    """
    for one in (one for node in nodes for one in walk(node)):
        found = operation_of(site, one) if isinstance(one, cst.BaseExpression) else None
        if _is_of_numbers(site, one) or site.callee_name(one) in _DTYPE_LIMITS:
            continue
        if found is None:
            if isinstance(one, cst.Call | cst.BinaryOperation):
                return False
        elif found.name == "mul":
            if not any(isinstance(part, cst.Integer | cst.Float) for part in found.operands):
                return False
        elif found.name not in _LINEAR or found.in_place:
            return False
    return True


def _hazards(site: Site, node: cst.CSTNode) -> Iterator[Hazard]:
    """Yield the operations in `node` that may yield inf, NaN or an infinite gradient."""
    for one in walk(node):
        if isinstance(one, cst.BaseExpression) and _is_of_numbers(site, one):
            continue
        found = operation_of(site, one) if isinstance(one, cst.BaseExpression) else None
        if found is not None:
            yield from _operation_hazards(site, found)
        elif isinstance(one, cst.Call):
            yield from _call_hazards(site, one)
        elif isinstance(one, cst.Subscript):
            yield from _index_hazards(site, one)


def _index_hazards(site: Site, one: cst.Subscript) -> Iterator[Hazard]:
    """Yield the subscript `one`, such as `table[i]`, if its index may be out of range."""
    match one.slice:
        case [cst.SubscriptElement(slice=cst.Index(value=index, star=None))]:
            seen = infer(site, index)
            if seen is None or not seen.is_tensor or not is_tensor(site, one.value):
                return
            if seen.dtypes <= {"int64", "int32"} and seen.shapes <= {(), (1,)}:
                yield Hazard(one, index, NeutralValue.ZERO)


def _gives_index(site: Site, node: cst.Call) -> bool:
    """Return whether the result of a call is passed to `argmin`, `argmax` or `argsort`."""
    parent = site.document.parents.get(node)
    outer = site.document.parents.get(parent) if parent is not None else None
    if not isinstance(parent, cst.Attribute | cst.Arg) or not isinstance(outer, cst.Call):
        return False
    return (outer.func is parent or outer.args[0] is parent) and torch_name(site, outer) in _INDICES


def _is_of_numbers(site: Site, node: cst.CSTNode) -> bool:
    """Return whether all operands of an operation are numbers, which have no gradient.

    So is `torch.finfo(x.dtype).max`.
    """
    if isinstance(node, cst.BinaryOperation):
        return all(
            _is_of_numbers(site, one) or is_tensor(site, one) is False
            for one in (node.left, node.right)
        )
    if isinstance(node, cst.Call) and site.callee_name(node).startswith("math."):
        return bool(node.args) and all(is_tensor(site, arg.value) is False for arg in node.args)
    dtype_facts = isinstance(node, cst.Attribute) and site.callee_name(node.value)
    return dtype_facts in _DTYPE_LIMITS


def _operation_hazards(site: Site, found: Operation) -> Iterator[Hazard]:
    """Yield the operation if it may divide by 0, yield inf or NaN, or raise."""
    name, operands, node = found.name, found.operands, found.node
    assert isinstance(node, cst.BaseExpression)
    known = _AT_ONE | _AT_ZERO | _NOWHERE
    if name in _DIVISIONS | known - RAISING and has_no_gradient(site, node):
        return
    if (
        name in known - RAISING - INDEXING
        and isinstance(node, cst.Call)
        and _gives_index(site, node)
    ):
        return
    if name in _DIVISIONS and len(operands) > 1:
        if not is_away_from_zero(site, operands[1]):
            yield Hazard(node, operands[1], NeutralValue.ONE)
    elif name == "pow" and len(operands) == 2:
        if not _is_positive_integer(operands[1]):
            yield Hazard(node, operands[0], NeutralValue.ONE)
    elif name in known:
        neutral = NeutralValue.ONE if name in _AT_ONE else NeutralValue.ZERO
        operand = operands[0] if operands else node
        yield Hazard(node, operand, None if name in _NOWHERE else neutral)


def _call_hazards(site: Site, call: cst.Call) -> Iterator[Hazard]:
    """Yield the call if it runs unknown code, or code of this file that has hazards."""
    kind = class_of(site, call.func)
    function = called_function(site, call) or (
        method_of_class(site, kind, "forward") if kind else None
    )
    if function is not None and any(_hazards(site, function.body)):
        yield Hazard(call, call, None)
    unknown = function is None and kind.rpartition(".")[2] in ("Sequential", "")
    if unknown and site.callee_name(call) not in PURE_CALLS:
        yield Hazard(call, call, None)


def is_away_from_zero(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether a divisor is nonzero: a size, `y + 1e-6`, `y.clamp(min=self.eps)`."""
    if _literal_number(node) != 0 or is_tensor(site, node) is False:
        return True
    match node:
        case cst.Name():
            values = assigned_values(site.document, node)
            return bool(values) and all(
                value is not None and is_away_from_zero(site, value) for value in values
            )
        case cst.BinaryOperation(operator=cst.Add()):
            return _is_positive(site, node.left) or _is_positive(site, node.right)
        case cst.Call() if torch_name(site, node) in ("clamp", "clamp_min", "clip"):
            limits = [arg.value for arg in node.args if not arg.keyword or _is_lower(arg)]
            return any(_is_positive(site, limit) for limit in limits[:2])
    return False


def _is_positive(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether an expression was positive in eager.

    If it was not observed, return whether its literal or default value is positive.
    """
    if _literal_number(node) > 0:
        return True
    if not isinstance(node, cst.Name | cst.Attribute):
        return False
    seen = site.observed(node)
    if seen is not None:
        return seen.is_number and all(float(one or 0) > 0 for one in seen.values)
    value = default_value(site, node)
    return value is not None and _literal_number(value) > 0


def _is_lower(arg: cst.Arg) -> bool:
    return arg.keyword is not None and arg.keyword.value == "min"


def _is_positive_integer(node: cst.BaseExpression) -> bool:
    """Return whether an expression is a literal 1, 2, 3, …: such powers are finite."""
    number = _literal_number(node)
    return number >= 1 and number % 1 == 0


def _literal_number(node: cst.BaseExpression) -> float:
    """Return the value of a numeric literal; 0 for anything else."""
    match node:
        case cst.Integer() | cst.Float():
            return float(node.evaluated_value)
        case cst.UnaryOperation(operator=cst.Minus()):
            return -_literal_number(node.expression)
    return 0.0
