"""Signs of numbers and tensors, derived from the source: never negative, or positive."""

from __future__ import annotations

from enum import IntEnum

import libcst as cst

from fullgraph.rewrites.analysis import Site, find_definitions, torch_name, word_set

_KEEPS_NOT_NEGATIVE = word_set(
    """
    amax amin bfloat16 ceil clone contiguous cpu cuda data detach double expand flatten float
    float_ half item long max maximum mean median min minimum numpy permute prod ravel relu
    reshape round squeeze sum to tolist transpose type type_as unsqueeze view
    """
)
"""Operations whose result is not negative if no operand is; it may be 0 for positive ones."""
_KEEPS_SIGN = word_set(
    """
    amax amin bfloat16 ceil clone contiguous cpu cuda data detach double expand flatten float
    item max maximum mean median min minimum numpy permute ravel reshape squeeze tolist transpose
    unsqueeze view
    """
)
_NEVER_NEGATIVE = word_set(
    """
    abs absolute argmax argmin argsort count_nonzero dist exp isfinite isinf isnan logical_and
    logical_not logical_or ne eq gt ge lt le len nelement norm numel rand relu relu6 sigmoid
    size softmax softplus sqrt square std var vector_norm zeros ones any all
    """
)
DEPTH = 8


class Sign(IntEnum):
    """Known sign of a number that is not NaN; a greater member is a stronger statement."""

    ANY = 0
    NOT_NEGATIVE = 1
    POSITIVE = 2


def sign_of(site: Site, node: cst.BaseExpression, depth: int = DEPTH) -> Sign:
    """Return the known sign of a number, or of all elements of a tensor or list.

    `depth` limits how many nested expressions and definitions are followed.
    """
    seen = site.observed(node)
    if seen is not None and seen.is_tensor and seen.dtypes <= {"bool", "uint8"}:
        return Sign.NOT_NEGATIVE
    if depth == 0:
        return Sign.ANY
    match node:
        case cst.Integer() | cst.Float():
            return Sign.POSITIVE if float(node.evaluated_value) > 0 else Sign.NOT_NEGATIVE
        case cst.Comparison():
            return Sign.NOT_NEGATIVE
        case cst.BinaryOperation():
            return _sign_of_operation(site, node, depth - 1)
        case cst.Subscript():
            return sign_of(site, node.value, depth - 1)
        case cst.ListComp():
            return sign_of(site, node.elt, depth - 1)
        case cst.List():
            elements = (sign_of(site, one.value, depth - 1) for one in node.elements)
            return min(elements, default=Sign.POSITIVE)
        case cst.Call():
            return _sign_of_call(site, node, depth - 1)
        case cst.Name():
            return _sign_of_variable(site, node, depth - 1)
        case cst.Attribute(attr=cst.Name(value="shape")):
            return Sign.NOT_NEGATIVE
        case cst.Attribute(attr=cst.Name(value="data")):
            return sign_of(site, node.value, depth - 1)
    return Sign.ANY


def is_nonzero(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether a number is known to be nonzero, from its source or observed values."""
    if isinstance(node, cst.Integer | cst.Float):
        return float(node.evaluated_value) != 0
    seen = site.observed(node)
    constant = isinstance(node, cst.Attribute | cst.Subscript) or _is_size(site, node)
    if constant and seen is not None and seen.is_number:
        return all(seen.values)
    return sign_of(site, node) is Sign.POSITIVE


def _is_size(site: Site, node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and torch_name(site, node) in ("size", "numel", "dim")


def _sign_of_operation(site: Site, node: cst.BinaryOperation, depth: int) -> Sign:
    """Return the known sign of the result of an arithmetic operation."""
    left, right = sign_of(site, node.left, depth), sign_of(site, node.right, depth)
    match node.operator:
        case cst.Add() if min(left, right) > Sign.ANY:
            return max(left, right)
        case cst.Multiply():
            if node.left.deep_equals(node.right):
                return max(left, Sign.NOT_NEGATIVE)
            return min(left, right)
        case cst.Divide() | cst.FloorDivide() | cst.Modulo():
            return min(left, right, Sign.NOT_NEGATIVE)
        case cst.Power():
            even = isinstance(node.right, cst.Integer) and int(node.right.value) % 2 == 0
            return Sign.NOT_NEGATIVE if even or left else Sign.ANY
    return Sign.ANY


def _sign_of_call(site: Site, call: cst.Call, depth: int) -> Sign:
    """Return the known sign of the result of a call."""
    qualified = site.callee_name(call)
    values = [arg.value for arg in call.args]
    if qualified in ("max", "min") and len(values) == 2:
        each = [sign_of(site, value, depth) for value in values]
        return max(each) if qualified == "max" else min(each)
    if qualified in ("int", "round", "sum") and values:
        return min(sign_of(site, values[0], depth), Sign.NOT_NEGATIVE)
    if qualified in ("float", "math.ceil") and values:
        return sign_of(site, values[0], depth)
    called = torch_name(site, call)
    if called in ("clamp", "clamp_min", "clip"):
        lower = [a.value for a in call.args if a.keyword is None or a.keyword.value == "min"]
        return max((sign_of(site, value, depth) for value in lower[:2]), default=Sign.ANY)
    if called == "pow" and values:
        even = isinstance(values[-1], cst.Integer) and int(values[-1].value) % 2 == 0
        return Sign.NOT_NEGATIVE if even else Sign.ANY
    if called in _NEVER_NEGATIVE or qualified.rpartition(".")[2] in ("numel", "len", "size"):
        return Sign.NOT_NEGATIVE
    if called not in _KEEPS_NOT_NEGATIVE:
        return Sign.ANY
    of = call.func.value if isinstance(call.func, cst.Attribute) else None
    operands = [one for one in (of, *values) if one is not None and site.is_tensor(one)]
    known = min((sign_of(site, one, depth) for one in operands), default=Sign.ANY)
    return known if called in _KEEPS_SIGN else min(known, Sign.NOT_NEGATIVE)


def _sign_of_variable(site: Site, name: cst.Name, depth: int) -> Sign:
    """Return the known sign of a local name: the weakest of its reaching definitions."""
    known = find_definitions(site.document, name)
    bindings = known.reaching.get(name, frozenset()) if known is not None else frozenset()
    each = []
    for binding in bindings:
        target = site.document.parents.get(binding)
        assign = site.document.parents.get(target) if target is not None else None
        if not isinstance(target, cst.AssignTarget) or not isinstance(assign, cst.Assign):
            return Sign.ANY
        each.append(sign_of(site, assign.value, depth))
    return min(each, default=Sign.ANY)
