"""Alias analysis: whether a local name holds the only reference to a tensor."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import (
    Definitions,
    Site,
    assigned_value,
    find_all,
    is_new_tensor,
    may_change,
    names_bound,
    names_mutated,
    torch_name,
)
from fullgraph.rewrites.transforms.masks import operators as ops
from fullgraph.rewrites.transforms.masks.operators import parse_operation
from fullgraph.rewrites.transforms.masks.reads import find_read

_LIKE = ("expand_as", "view_as", "reshape_as", "type_as")
"""Methods that take only the shape or the dtype of their argument."""
_PAIRS = ("max", "min", "median", "mode", "sort", "topk", "kthvalue", "cummax", "cummin")
"""Functions that return two new tensors."""
_FACTS = ("shape", "dtype", "device", "ndim", "requires_grad", "is_cuda")


def has_no_alias(site: Site, known: Definitions | None, name: cst.Name, place: cst.CSTNode) -> bool:
    """Return whether the tensor of `name` at `place` is new in this function and has no alias.

    If so, rebinding the name has the same effect as changing the tensor in place. `known` are the
    function's reaching definitions; if they are None, the answer is False.
    """
    if known is None:
        return False
    bindings = known.before.get(place, {}).get(name.value, frozenset())
    for binding in bindings:
        made = assigned_value(site.document, binding) or _unpacked_call(site, binding)
        if made is None or not is_new_tensor(site, made):
            return False
        uses = [use for use in known.uses(binding) if _may_come_before(site, use, place, binding)]
        if any(_may_create_alias(site, use, known) for use in uses):
            return False
    return bool(bindings)


def _unpacked_call(site: Site, binding: cst.CSTNode) -> cst.Call | None:
    """Return `x.max(-1)` for a name that `value, index = x.max(-1)` binds; else None."""
    match [*site.document.ancestors(binding)][:4]:
        case [cst.Element(), cst.Tuple(), cst.AssignTarget(), cst.Assign(value=cst.Call() as call)]:
            return call if torch_name(site, call) in _PAIRS else None
    return None


def find_clone(
    site: Site, known: Definitions, name: cst.Name, place: cst.CSTNode
) -> tuple[cst.SimpleStatementLine, cst.Name] | None:
    """Return the line `name = x.clone()` and `x`, if only the statement `place` needs the clone.

    None if `x` may be another tensor there, or have been changed.
    """
    document = site.document
    bindings = known.before.get(place, {}).get(name.value, frozenset())
    binding = next(iter(bindings)) if len(bindings) == 1 else None
    match assigned_value(document, binding) if binding is not None else None:
        case cst.Call(
            func=cst.Attribute(value=cst.Name() as source, attr=cst.Name("clone")), args=[]
        ) if site.is_tensor(source):
            line = document.statement(source)
        case _:
            return None
    block = getattr(document.parent(place), "body", ())
    if line not in block or not isinstance(line, cst.SimpleStatementLine) or len(line.body) > 1:
        return None
    between = block[block.index(line) + 1 : block.index(place)]
    last = document.position(place).line
    for use in known.uses(binding) if binding is not None else ():
        if place not in document.ancestors(use) and document.position(use).line <= last:
            return None
    changed = (
        source.value in names_bound(*between)
        or may_change(site, [source.value], between)
        or not all(
            has_no_alias(site, known, cst.Name(other), place) for other in names_mutated(*between)
        )
    )
    return None if changed or find_all(line, m.Comment()) else (line, source)


def _may_come_before(site: Site, use: cst.Name, place: cst.CSTNode, binding: cst.CSTNode) -> bool:
    """Return whether the name `use` may be evaluated before the statement `place` ends.

    That includes an earlier iteration of a loop, unless the loop also contains `binding`, which
    assigns a new tensor to the name.
    """
    document = site.document
    if document.function(use) is not document.function(place):
        return True
    if document.position(use).line <= document.position(place).line:
        return True
    around = tuple(document.ancestors(binding))
    loops = [n for n in document.ancestors(place) if isinstance(n, cst.For | cst.While)]
    return any(loop not in around and loop in document.ancestors(use) for loop in loops)


def _may_create_alias(site: Site, use: cst.Name, known: Definitions) -> bool:
    """Return whether the code around `use`, a name of a tensor, may store the tensor elsewhere.

    Storing a view of the tensor counts too. `known` are the function's reaching definitions.
    """
    document = site.document
    if document.function(use) is not known.function:
        return True
    parent = document.parent(use)
    match parent:
        case cst.BinaryOperation() | cst.UnaryOperation() | cst.Comparison():
            return False
        case cst.ComparisonTarget() | cst.Return() | cst.AugAssign() | cst.If():
            return False
        case cst.Attribute() if parent.attr.value in _FACTS:
            return False
        case cst.Attribute():
            outer = document.parent(parent)
            return not (
                isinstance(outer, cst.Call)
                and outer.func is parent
                and _leaves_no_alias(site, outer)
            )
        case cst.Arg():
            call = document.parent(parent)
            if not isinstance(call, cst.Call):
                return True
            like = m.matches(call.func, m.Attribute(attr=m.MatchIfTrue(lambda a: a.value in _LIKE)))
            return not (like or _leaves_no_alias(site, call))
        case cst.Subscript() if parent.value is use:
            outer = document.parent(parent)
            if isinstance(outer, cst.AssignTarget | cst.AugAssign | cst.BinaryOperation):
                return False
            return find_read(site, parent) is None
    return not isinstance(parent, cst.Index)


def _leaves_no_alias(site: Site, call: cst.Call) -> bool:
    """Return whether no alias of the arguments remains after a call.

    True if the call returns a new tensor. True also for an in-place method in a statement of its
    own: the method returns its argument, but nothing uses the result.
    """
    made = parse_operation(site, call)
    if made is None or made.in_place:
        return made is not None and made.method and _is_statement(site, call)
    return made.name in ops.NEUTRAL or (is_new_tensor(site, call) and made.name in ops.ELEMENTWISE)


def _is_statement(site: Site, call: cst.Call) -> bool:
    return isinstance(site.document.parent(call), cst.Expr)
