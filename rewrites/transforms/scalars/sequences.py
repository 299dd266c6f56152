"""`t.tolist()` as a tuple of 0-d tensors, one for each element."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable, find_definitions
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.scalars.containers import (
    KEPT,
    RETURNED,
    STORES,
    propagate_to_container_use,
)
from fullgraph.rewrites.transforms.scalars.scalar import Number
from fullgraph.rewrites.transforms.scalars.use_edits import UseEdits

NESTED = "a list in the list is used as a whole"
_FOLDS = ("sum", "max", "min")


def propagate_to_list(
    uses: UseEdits,
    node: cst.BaseExpression,
    tensor: cst.BaseExpression,
    number: Number,
    depth: int,
) -> None:
    """Replace `node`, a list of the numbers in `tensor`, by a tuple of 0-d tensors.

    `t.tolist()` → `t.unbind()`. The lists are nested as often as the tensor has dimensions, `depth`
    times. Edits the uses of the list too. Raises NotApplicable if one needs numbers.
    """
    parent = uses.document.parent(node)
    if isinstance(parent, cst.Arg) and depth == 1:
        call = uses.document.parent(parent)
        called = uses.site.callee_name(call)
        if called in _FOLDS and isinstance(call, cst.Call) and len(call.args) == 1:
            uses.write(call, build_expression(f"{{t}}.{called}()", t=tensor))
            uses.propagate(call, replace(number, is_computed=True))
            return
        if called in ("torch.tensor", "torch.as_tensor", "numpy.array", "len"):
            raise NotApplicable(f"`{called}` of the tensor itself does without the list")
    uses.write(node, build_expression("{t}.unbind()", t=tensor))
    around = uses.document.ancestors(node)
    outer = next(one for one in around if not isinstance(one, cst.BaseExpression | cst.Element))
    if isinstance(outer, cst.Return):
        if depth > 1:
            raise NotApplicable(NESTED)
        uses.write(node, build_expression("list({t}.unbind())", t=tensor))
    _propagate_to_tuple(uses, node, replace(number, owns_memory=False), depth)


def _propagate_to_tuple(
    uses: UseEdits, node: cst.BaseExpression, number: Number, depth: int, inner: bool = False
) -> None:
    """Edit the uses of `node`, a list of numbers that becomes a tuple of 0-d tensors.

    With a `depth` above 1 its elements are such lists, nested one time less, and become tensors.
    `inner` says that `node` is such an element, which may only be taken apart. Raises NotApplicable
    if a use needs numbers or changes the list.
    """
    parent = uses.document.parent(node)
    match parent:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple() | cst.List() as names)]):
            for element in names.elements:
                _propagate_to_target(uses, element.value, number, depth)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
            known = find_definitions(uses.document, name)
            if known is None:
                raise NotApplicable("the numbers are in a global variable")
            for use in known.uses(name):
                if known.reaching[use] != frozenset({name}):
                    raise NotApplicable("the name may hold a plain list too")
                _propagate_to_tuple(uses, use, number, depth, inner)
        case cst.For() | cst.CompFor() if parent.iter is node:
            _propagate_to_target(uses, parent.target, number, depth)
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=index))]):
            if uses.kind(index) is not int:
                raise NotApplicable("not one number is taken of the list")
            if depth > 1:
                _propagate_to_tuple(uses, parent, number, depth - 1, inner=True)
            else:
                uses.propagate(parent, number)
        case cst.Arg(keyword=None):
            _propagate_to_call(uses, node, parent, number, depth, inner)
        case _ if depth > 1 or inner:
            raise NotApplicable(NESTED)
        case cst.Return():
            uses.assume_reader_accepts_tensor(RETURNED)
        case cst.Attribute() if parent.attr.value in STORES:
            raise NotApplicable("the list is changed")
        case _:
            propagate_to_container_use(uses, node, number)


def _propagate_to_call(
    uses: UseEdits, node: cst.BaseExpression, arg: cst.Arg, number: Number, depth: int, inner: bool
) -> None:
    """Edit the uses of `n` in `for i, n in enumerate(node)`, now that `node` has tensors.

    `arg` is the argument `node`. Does the same for `zip` and `reversed`. Raises NotApplicable for a
    `for` over another call, and if a use needs numbers.
    """
    call = uses.document.parent(arg)
    loop = uses.document.parent(call)
    called = uses.site.callee_name(call)
    if (
        not isinstance(call, cst.Call)
        or not isinstance(loop, cst.For | cst.CompFor)
        or loop.iter is not call
    ):
        if depth > 1 or inner:
            raise NotApplicable(NESTED)
        propagate_to_container_use(uses, node, number)
    elif called == "reversed":
        _propagate_to_target(uses, loop.target, number, depth)
    elif called in ("enumerate", "zip") and isinstance(loop.target, cst.Tuple):
        place = 1 if called == "enumerate" else call.args.index(arg)
        _propagate_to_target(uses, loop.target.elements[place].value, number, depth)
    else:
        raise NotApplicable(f"`{called}` may need numbers")


def _propagate_to_target(
    uses: UseEdits, target: cst.BaseExpression, number: Number, depth: int
) -> None:
    """Edit the uses of the variable `target`, to which an element that is a tensor is assigned.

    `depth` is that of the list. For an attribute or an item, assume that its readers accept a
    tensor. Raises NotApplicable for other targets, and if a use needs numbers.
    """
    match target:
        case cst.Tuple() | cst.List() if depth > 1:
            for element in target.elements:
                _propagate_to_target(uses, element.value, number, depth - 1)
        case cst.Name() if depth > 1:
            known = find_definitions(uses.document, target)
            for use in known.uses(target) if known is not None else ():
                _propagate_to_tuple(uses, use, number, depth - 1, inner=True)
        case cst.Name():
            uses.propagate_to_name(target, number)
        case cst.Attribute() | cst.Subscript():
            uses.assume_reader_accepts_tensor(KEPT)
        case _:
            raise NotApplicable("it is taken apart")
