"""Dtypes of tensors, derived from the source: whether two are the same on all inputs."""

from __future__ import annotations

from collections.abc import Hashable

import libcst as cst

from fullgraph.rewrites.analysis import (
    Site,
    assigned_value,
    find_definitions,
    operation_of,
    walk,
    word_set,
)
from fullgraph.rewrites.source import dotted_name
from fullgraph.rewrites.transforms.scalars.scalar import CASTS

_KEEPS = word_set(
    """
    abs amax amin clone contiguous cpu cuda detach empty_like expand expand_as flatten flip
    full_like gather index_select item max mean median min narrow neg new_empty new_full new_ones
    new_zeros ones_like permute rand_like randn_like repeat repeat_interleave reshape roll select
    squeeze t take tile transpose unsqueeze view view_as zeros_like
    """
)
"""Operations whose result has the dtype of the first operand, unless `dtype=` is given."""
_JOINS = word_set("add maximum minimum mul sub")
"""Operations whose result has the dtype of the operands, if they have the same one."""
_DEFAULT = word_set("empty eye ones rand randn zeros")
"""Functions whose result has the default dtype, unless `dtype=` is given."""
_VIEWS = ("T", "mT", "data")
_METHODS = {name: str(dtype) for dtype, name in CASTS.items()}
_DEPTH = 8


def have_same_dtype(site: Site, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Return whether two tensors have the same dtype on all inputs, as far as the source shows."""
    known = _dtype_origin(site, one, _DEPTH)
    return known is not None and known == _dtype_origin(site, other, _DEPTH)


def _dtype_origin(site: Site, node: cst.CSTNode, depth: int) -> Hashable:
    """Return what decides the dtype of a tensor: a variable, an attribute or a dtype's name.

    None if unknown. `depth` limits how many nested expressions and definitions are followed.
    """
    if depth == 0:
        return None
    match node:
        case cst.Name():
            return _origin_of_variable(site, node, depth - 1)
        case cst.Subscript():
            return _dtype_origin(site, node.value, depth - 1)
        case cst.Attribute(attr=cst.Name(value=name)) if name in _VIEWS:
            return _dtype_origin(site, node.value, depth - 1)
        case cst.Attribute():
            path, document = dotted_name(node), site.document
            same = [
                one for one in walk(document.function(node) or node) if dotted_name(one) == path
            ]
            is_bound = any(isinstance(document.parents.get(one), cst.AssignTarget) for one in same)
            return None if is_bound else path or None
        case cst.Call() | cst.BinaryOperation() | cst.UnaryOperation():
            return _origin_of_operation(site, node, depth - 1)
    return None


def _origin_of_variable(site: Site, name: cst.Name, depth: int) -> Hashable:
    """Return what decides the dtype of a local tensor; None for several definitions."""
    known = find_definitions(site.document, name)
    bindings = known.reaching.get(name, frozenset()) if known is not None else frozenset()
    if len(bindings) != 1:
        return None
    (binding,) = bindings
    value = assigned_value(site.document, binding)
    return binding if value is None else _dtype_origin(site, value, depth) or binding


def _origin_of_operation(site: Site, node: cst.CSTNode, depth: int) -> Hashable:
    """Return what decides the dtype of an operation's result; None if unknown."""
    made = operation_of(site, node)
    if made is None:
        return None
    given = made.keywords.get("dtype")
    if made.name == "to" and len(made.operands) == 2 and given is None:
        given = made.operands[1]
    if given is not None:
        match given:
            case cst.Attribute(value=tensor, attr=cst.Name(value="dtype")):
                return _dtype_origin(site, tensor, depth)
        named = site.document.qualified_name(given)
        return named if named in _METHODS.values() else None
    if made.name in _METHODS and len(made.operands) == 1:
        return _METHODS[made.name]
    if made.name in _DEFAULT:
        return "default"
    if made.name in _JOINS and made.operands and not made.keywords:
        origins = {_dtype_origin(site, one, depth) for one in made.operands}
        return origins.pop() if len(origins) == 1 else None
    return _dtype_origin(site, made.operands[0], depth) if made.name in _KEEPS else None
