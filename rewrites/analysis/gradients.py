"""Expressions that no gradient flows through."""

from __future__ import annotations

import re
from collections.abc import Iterable

import libcst as cst

from fullgraph.rewrites.analysis.changes import may_change
from fullgraph.rewrites.analysis.classes import buffer_value, classes_around
from fullgraph.rewrites.analysis.definitions import assigned_values
from fullgraph.rewrites.analysis.flow import names_bound, names_mutated
from fullgraph.rewrites.analysis.inferred import infer, is_tensor
from fullgraph.rewrites.analysis.operation import operation_of
from fullgraph.rewrites.analysis.purity import torch_name
from fullgraph.rewrites.analysis.site import Site
from fullgraph.rewrites.analysis.torch_names import word_set
from fullgraph.rewrites.source import dotted_name, walk

_WITHOUT_GRADIENT = word_set(
    """
    all any arange argmax argmin argsort detach empty empty_like eq eye from_numpy full_like ge gt
    isfinite isinf isnan le linspace logical_and logical_not logical_or logical_xor logspace lt ne
    new new_empty new_full new_ones new_tensor new_zeros ones ones_like rand rand_like randint
    randint_like randn randn_like randperm tensor zeros zeros_like
    """
)
"""Operators whose results require no gradient, whatever their operands do."""
_OLD = re.compile(r"torch\.\w*Tensor")
"""Constructors such as `torch.FloatTensor`."""
_DEFINITIONS = 4
"""Number of definitions that are followed, one from the other."""


def has_no_gradient(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether no gradient flows through an expression.

    Its tensors were of integers or booleans, or the source shows that it is computed from buffers,
    comparisons, new tensors or `x.detach()` alone, or under `torch.no_grad()`.
    """
    return _has_none(site, node, _DEFINITIONS, frozenset())


def _has_none(site: Site, node: cst.BaseExpression, depth: int, assumed: frozenset[str]) -> bool:
    """Return whether no gradient flows through `node`; `depth` definitions are followed.

    None flows through the buffers `assumed`, by induction.
    """
    if depth == 0 or node not in site.document.parents:
        return False
    if _is_without_gradients(site, node) or _is_of_integers(site, node):
        return True
    match node:
        case cst.Integer() | cst.Float():
            return True
        case cst.Attribute() if dotted_name(node) in assumed:
            return True
        case cst.Attribute() if _is_buffer(site, node, depth - 1, assumed):
            return True
        case cst.Attribute(attr=cst.Name("data")):
            return True
        case cst.Subscript(value=table):
            return _has_none(site, table, depth, assumed)
        case cst.Name():
            values = assigned_values(site.document, node)
            constant = bool(values) and all(
                value is not None and _has_none(site, value, depth - 1, assumed) for value in values
            )
            return constant and not _may_have_changed(site, node, depth - 1, assumed)
    keywords = [arg.keyword.value for arg in getattr(node, "args", ()) if arg.keyword is not None]
    if isinstance(node, cst.Call) and "requires_grad" not in keywords:
        method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
        if {torch_name(site, node), method} & _WITHOUT_GRADIENT:
            return True
        if _OLD.fullmatch(site.callee_name(node)):
            return True
    made = operation_of(site, node)
    if made is None or not made.operands or "requires_grad" in keywords:
        return False
    if made.name in _WITHOUT_GRADIENT:
        return True
    return _have_none(site, (*made.operands, *made.keywords.values()), depth, assumed)


def _have_none(
    site: Site, nodes: Iterable[cst.BaseExpression], depth: int, assumed: frozenset[str]
) -> bool:
    """Return whether no gradient flows through expressions; numbers have none."""
    return all(
        is_tensor(site, one) is False or _has_none(site, one, depth, assumed) for one in nodes
    )


def _is_of_integers(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether an expression was a tensor of an integer dtype or of booleans each time."""
    seen = infer(site, node)
    if seen is None or not seen.is_tensor:
        return False
    return not any(one.is_float or one.dtype.startswith("complex") for one in seen.tensors)


def _may_have_changed(site: Site, name: cst.Name, depth: int, assumed: frozenset[str]) -> bool:
    """Return whether a tensor may have got a gradient before, in place or because it asked for one.

    `depth` and `assumed` are as for `_has_none`.
    """
    document, function = site.document, site.document.function(name)
    loops = [one for one in document.ancestors(name) if isinstance(one, cst.For | cst.While)]
    before = [
        one
        for one in (walk(function.body) if function is not None else ())
        if isinstance(one, cst.BaseSmallStatement | cst.For)
        and (
            document.position(one).line < document.position(name).line
            or any(loop in document.ancestors(one) for loop in loops)
        )
    ]
    asks = f"{name.value}.requires_grad" in names_bound(*before)
    changes = [one for one in before if not _fills(site, one, depth, assumed)]
    return asks or may_change(site, [name.value], changes)


def _fills(site: Site, node: cst.CSTNode, depth: int, assumed: frozenset[str]) -> bool:
    """Return whether a statement changes a tensor in place by what has no gradient.

    `x.fill_(0)` and `x[i] = 0` do.
    """
    match node:
        case cst.Expr(value=cst.Call() as call) if torch_name(site, call) != "requires_grad_":
            made = operation_of(site, call)
            if made is None or not made.in_place or "out" in made.keywords:
                return False
            others = (*made.operands[1:], *made.keywords.values())
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript())], value=value):
            others = (value,)
        case cst.AugAssign(value=value):
            others = (value,)
        case _:
            return False
    return _have_none(site, others, depth, assumed)


def _is_buffer(site: Site, node: cst.Attribute, depth: int, assumed: frozenset[str]) -> bool:
    """Return whether a class registers the buffer `node` (`self.x`), and only fills it.

    `depth` and `assumed` are as for `_has_none`.
    """
    if buffer_value(site, node) is None:
        return False
    name = dotted_name(node)
    inside = [one for owner in classes_around(site, node) for one in walk(owner)]
    lines = [one for one in inside if isinstance(one, cst.BaseSmallStatement)]
    writes = [one for one in lines if name in {*names_bound(one), *names_mutated(one)}]
    return all(_fills(site, one, depth, assumed | {name}) for one in writes)


def _is_without_gradients(site: Site, node: cst.CSTNode) -> bool:
    """Return whether code runs under `torch.no_grad()` or `torch.inference_mode()`."""
    for outer in site.document.ancestors(node):
        match outer:
            case cst.With(items=[cst.WithItem(item=cst.Call() as call)]):
                name = site.callee_name(call)
                if name in ("torch.no_grad", "torch.inference_mode") and not call.args:
                    return True
                if name.endswith("grad") or name.endswith("grad_enabled"):
                    return False
            case cst.FunctionDef(decorators=decorators):
                names = [site.document.code(one.decorator) for one in decorators]
                return any(one in ("torch.no_grad()", "torch.inference_mode()") for one in names)
            case cst.Lambda():
                return False
    return False
