"""Values that were tensors in the run and may be ints in another one, as the source says."""

from __future__ import annotations

from contextlib import suppress

import libcst as cst

from fullgraph.rewrites.analysis.classes import called_function
from fullgraph.rewrites.analysis.definitions import Definitions, assigned_value
from fullgraph.rewrites.analysis.inferred import infer
from fullgraph.rewrites.analysis.site import Site
from fullgraph.rewrites.source import dotted_name

_UNIONS = ("Optional", "Union", "typing.Optional", "typing.Union")


def may_be_int(
    site: Site,
    known: Definitions,
    node: cst.BaseExpression,
    visited: frozenset[cst.CSTNode] = frozenset(),
) -> bool:
    """Return whether an expression may be an int in some run, as the source says.

    `visited` are the bindings that were followed to it.
    """
    match node:
        case cst.Name():
            bindings = known.reaching.get(node, frozenset()) - visited
            return _is_int(site, node) or any(
                _may_bind_int(site, known, one, visited | bindings) for one in bindings
            )
        case cst.BinaryOperation(left=left, right=right):
            return all(may_be_int(site, known, one, visited) for one in (left, right))
        case cst.Call():
            return _may_return_int(site, node)
    return _is_int(site, node)


def _is_int(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether an expression was an int, or is a literal one."""
    seen = infer(site, node)
    literal = node.expression if isinstance(node, cst.UnaryOperation) else node
    return isinstance(literal, cst.Integer) or (seen is not None and {*seen.types} == {"int"})


def _may_bind_int(
    site: Site, known: Definitions, binding: cst.CSTNode, visited: frozenset[cst.CSTNode]
) -> bool:
    """Return whether a parameter is said to accept an int, or an assigned value may be one."""
    parameter = site.document.parents.get(binding)
    if isinstance(parameter, cst.Param):
        default = parameter.default
        is_int = default is not None and _is_int(site, default)
        return is_int or _names_int(site, parameter.annotation)
    value = assigned_value(site.document, binding)
    return value is not None and may_be_int(site, known, value, visited)


def _may_return_int(site: Site, call: cst.Call) -> bool:
    """Return whether a call is one of a Python function outside of torch that may return an int.

    The annotation of a function in this file tells what it returns.
    """
    seen, function = site.observed(call.func), called_function(site, call)
    if function is not None and function.returns is not None:
        return _names_int(site, function.returns)
    is_function = seen is not None and {*seen.types} <= {"function", "method"}
    is_torch = site.callee_name(call).startswith("torch.")
    return (function is not None or is_function) and not is_torch


def _names_int(site: Site, annotation: cst.Annotation | None) -> bool:
    """Return whether an annotation such as `int | torch.Tensor` names `int`."""
    return annotation is not None and _allows_int(annotation.annotation)


def _allows_int(hint: cst.BaseExpression) -> bool:
    """Return whether an int is of the type `hint`: `int`, a union with it, or a text of these."""
    match hint:
        case cst.Name(value="int"):
            return True
        case cst.BinaryOperation(left=left, right=right):
            return _allows_int(left) or _allows_int(right)
        case cst.Subscript(value=kind, slice=parts) if dotted_name(kind) in _UNIONS:
            return any(isinstance(p.slice, cst.Index) and _allows_int(p.slice.value) for p in parts)
        case cst.Subscript(
            value=kind, slice=[cst.SubscriptElement(slice=cst.Index(value=inner)), *_]
        ) if dotted_name(kind).rpartition(".")[2] == "Annotated":
            return _allows_int(inner)
        case cst.SimpleString(raw_value=text):
            with suppress(cst.ParserSyntaxError):  # it need not be a type
                return _allows_int(cst.parse_expression(text.strip()))
    return False
