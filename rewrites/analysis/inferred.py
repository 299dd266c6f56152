"""Facts of expressions that did not run, such as those of a branch that was not taken.

An expression becomes a term over the observed facts of its parts, which `Site.facts` evaluates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import getitem

import libcst as cst

from fullgraph.compiler.facts import Constant, Expression, Term, ValueSummary
from fullgraph.rewrites.analysis.classes import buffer_value, numeric_attribute
from fullgraph.rewrites.analysis.definitions import Bindings, Definitions, find_definitions
from fullgraph.rewrites.analysis.operators import BINARY, UNARY, Function
from fullgraph.rewrites.analysis.site import Site
from fullgraph.rewrites.analysis.torch_names import word_set
from fullgraph.rewrites.source import dotted_name, walk

_ATTRIBUTES = word_set(
    """
    T data device dtype eps imag mT max min ndim real shape smallest_normal tiny
    """
)
_MODULES = ("torch", "torch.nn.functional", "torch.special", "torch.linalg", "torch.fft")
DEPTH = 12
"""Maximum depth to which definitions and nested expressions are followed."""


class UnknownValue(Exception):
    """Raised for an expression whose value does not follow from facts observed in eager."""


def infer(site: Site, node: cst.CSTNode) -> ValueSummary | None:
    """Return the observed facts of an expression, else inferred ones; None if unknown."""
    if (seen := site.observed(node)) is not None:
        return seen
    if isinstance(node, cst.Name) and (known := find_definitions(site.document, node)) is not None:
        seen = _facts_of_use(site, known, known.reaching.get(node, frozenset()))
    return seen or _facts_of(site, lambda: _term_of(site, node, 0))


def _facts_elsewhere(site: Site, node: cst.Attribute) -> ValueSummary | None:
    """Return the facts of another use of the same attribute path in the function.

    None if no use was observed, or if the function assigns to the path.
    """
    document, path = site.document, dotted_name(node)
    function = document.function(node)
    found = [one for one in walk(function or node) if path and dotted_name(one) == path]
    bound = [one for one in found if isinstance(document.parents.get(one), cst.AssignTarget)]
    return None if bound else next(filter(None, map(site.observed, found)), None)


def infer_variable(site: Site, variable: str, statement: cst.CSTNode) -> ValueSummary | None:
    """Return the facts of a local name at the start of `statement`; None if unknown."""
    known = find_definitions(site.document, statement)
    if known is None:
        return None
    bindings = known.before.get(statement, {}).get(variable, frozenset())
    used = _facts_of_use(site, known, bindings)
    return used or _facts_of(site, lambda: _term_of_definitions(site, known, bindings, 0))


def _facts_of(site: Site, find_term: Callable[[], Term]) -> ValueSummary | None:
    """Return the facts of the term that `find_term` returns.

    None if `find_term` raises UnknownValue, or if the facts of the term are unknown.
    """
    try:
        term = find_term()
    except UnknownValue:
        return None
    return site.facts.evaluate(term)


def is_tensor(site: Site, node: cst.CSTNode) -> bool | None:
    """Return whether an expression is a tensor; None if unknown."""
    seen = infer(site, node)
    return None if seen is None else seen.is_tensor


def same_kind(one: ValueSummary, other: ValueSummary) -> bool:
    """Return whether two values always were tensors, all of the same dtype and the same shape."""
    return (
        one.is_tensor
        and other.is_tensor
        and len(one.dtypes) == len(one.shapes) == 1
        and one.dtypes == other.dtypes
        and one.shapes == other.shapes
    )


def _term_of(site: Site, node: cst.CSTNode, depth: int) -> Term:
    """Return an expression as a term: observed facts, a constant, or an operation on terms.

    `depth` counts the nested expressions and definitions followed so far. Raises UnknownValue, also
    beyond the depth `DEPTH`.
    """
    if depth > DEPTH:
        raise UnknownValue
    seen = site.observed(node)
    if seen is not None:
        return seen
    again = depth + 1
    match node:
        case cst.Integer() | cst.Float():
            return node.evaluated_value
        case cst.SimpleString() if isinstance(text := node.evaluated_value, str):
            return text
        case cst.Name(value="True" | "False" | "None"):
            return {"True": True, "False": False, "None": None}[node.value]
        case cst.Name() | cst.Attribute() if site.document.qualified_name(node).startswith(
            "torch."
        ):
            return Constant(site.document.qualified_name(node))
        case cst.Name():
            return _term_of_variable(site, node, again)
        case cst.Attribute() if node.attr.value in _ATTRIBUTES:
            return Expression("getattr", (_term_of(site, node.value, again), node.attr.value))
        case cst.Attribute() if (elsewhere := _facts_elsewhere(site, node)) is not None:
            return elsewhere
        case cst.Attribute() if given := buffer_value(site, node) or numeric_attribute(site, node):
            return _term_of(site, given, again)
        case cst.BinaryOperation() if type(node.operator) in BINARY:
            operands = node.left, node.right
            return _operation(site, BINARY[type(node.operator)], operands, again)
        case cst.Comparison(comparisons=[one]) if type(one.operator) in BINARY:
            operands = node.left, one.comparator
            return _operation(site, BINARY[type(one.operator)], operands, again)
        case cst.UnaryOperation() if type(node.operator) in UNARY:
            return _operation(site, UNARY[type(node.operator)], (node.expression,), again)
        case cst.Tuple() | cst.List():
            elements = tuple(_term_of(site, one.value, again) for one in node.elements)
            return Expression("list", elements)
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=index))]):
            return _operation(site, getitem, (node.value, index), again)
        case cst.Subscript():
            parts = tuple(_term_of_index(site, one.slice, again) for one in node.slice)
            position = parts[0] if len(parts) == 1 else Expression("tuple", parts)
            return Expression("operator.getitem", (_term_of(site, node.value, again), position))
        case cst.Call():
            return _term_of_call(site, node, again)
    raise UnknownValue


def _term_of_index(site: Site, index: cst.BaseSlice, depth: int) -> Term:
    """Return one part of a subscript as a term: a slice, `...` or an index. Raises UnknownValue."""
    match index:
        case cst.Slice():
            bounds = (index.lower, index.upper, index.step)
            return Expression(
                "slice",
                tuple(None if one is None else _term_of(site, one, depth) for one in bounds),
            )
        case cst.Index(value=cst.Ellipsis()):
            return Expression("ellipsis", ())
        case cst.Index(star=None):
            return _term_of(site, index.value, depth)
    raise UnknownValue


def _term_of_variable(site: Site, use: cst.Name, depth: int) -> Term:
    """Return the value of a local name at `use` as a term. Raises UnknownValue.

    `depth` counts the nested expressions and definitions followed so far.
    """
    known = find_definitions(site.document, use)
    if known is None:
        raise UnknownValue
    return _term_of_definitions(site, known, known.reaching.get(use, frozenset()), depth)


def _term_of_definitions(site: Site, known: Definitions, bindings: Bindings, depth: int) -> Term:
    """Return the value that a variable gets from `bindings` as a term. Raises UnknownValue.

    If another use of this value was observed, the term is the facts of that use. Otherwise it is
    the term of the assigned expression. `known` are the definitions of the whole function; `depth`
    counts the nested expressions and definitions followed so far.
    """
    if (seen := _facts_of_use(site, known, bindings)) is not None:
        return seen
    for binding in bindings:
        parent = site.document.parents.get(binding)
        if isinstance(parent, cst.AugAssign) and isinstance(binding, cst.Name) and depth < DEPTH:
            return _term_of_definitions(
                site, known, known.reaching.get(binding, frozenset()), depth + 1
            )
        assign = site.document.parents.get(parent) if parent is not None else None
        if isinstance(parent, cst.AssignTarget) and isinstance(assign, cst.Assign):
            return _term_of(site, assign.value, depth)
    raise UnknownValue


def _facts_of_use(site: Site, known: Definitions, bindings: Bindings) -> ValueSummary | None:
    """Return the observed facts of a use that `bindings` of a variable reach; None without one.

    A use that no other binding can reach is preferred. `known` are the definitions of the function.
    """
    uses = [use for binding in bindings for use in known.uses(binding)]
    uses.sort(key=lambda use: not known.reaching[use] <= bindings)
    return next((seen for use in uses if (seen := site.observed(use)) is not None), None)


def _operation(
    site: Site, function: Function, operands: Iterable[cst.BaseExpression], depth: int
) -> Expression:
    """Return `operator.add(a, b)` as a term, where `function` is `operator.add`.

    `depth` counts the nested expressions and definitions followed so far. Raises UnknownValue if an
    operand cannot be written as a term.
    """
    terms = tuple(_term_of(site, one, depth) for one in operands)
    return Expression(f"operator.{function.__name__}", terms)


def _term_of_call(site: Site, call: cst.Call, depth: int) -> Expression:
    """Return a call of a torch function or of a tensor's method as a term.

    `depth` counts the nested expressions and definitions followed so far. Raises UnknownValue if
    the call or an operand cannot be written as a term.
    """
    if any(arg.star for arg in call.args):
        raise UnknownValue
    operands = [_term_of(site, arg.value, depth) for arg in call.args if arg.keyword is None]
    keywords = tuple(
        (arg.keyword.value, _term_of(site, arg.value, depth))
        for arg in call.args
        if arg.keyword is not None
    )
    qualified = site.document.qualified_name(call.func)
    module, _, last = qualified.rpartition(".")
    if last.endswith("_") or "out" in dict(keywords):
        raise UnknownValue
    if module in _MODULES:
        return Expression(qualified, tuple(operands), keywords)
    if isinstance(call.func, cst.Attribute):
        base = _term_of(site, call.func.value, depth)
        return Expression(f"torch.Tensor.{call.func.attr.value}", (base, *operands), keywords)
    raise UnknownValue
