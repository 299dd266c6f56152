"""`t.tolist()`: as many numbers as the tensor has elements, each of which can stay a tensor."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable, find_definitions
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.scalars.containers import KEPT, RETURNED, STORES, read
from fullgraph.rewrites.transforms.scalars.scalar import Number
from fullgraph.rewrites.transforms.scalars.use_edits import UseEdits

_FOLDS = ("sum", "max", "min")


def spread(
    uses: UseEdits, node: cst.BaseExpression, tensor: cst.BaseExpression, number: Number
) -> None:
    """Let `node`, the numbers of `tensor` in a list, be a tuple of tensors.

    Raises NotApplicable.
    """
    parent = uses.document.parent(node)
    if isinstance(parent, cst.Arg):
        call = uses.document.parent(parent)
        called = uses.site.calls(call)
        if called in _FOLDS and isinstance(call, cst.Call) and len(call.args) == 1:
            uses.write(call, build_expression(f"{{t}}.{called}()", t=tensor))
            uses.absorb(call, replace(number, computed=True))
            return
        if called in ("torch.tensor", "torch.as_tensor", "numpy.array", "len"):
            raise NotApplicable(f"`{called}` of the tensor itself does without the list")
    uses.write(node, build_expression("{t}.unbind()", t=tensor))
    around = uses.document.around(node)
    outer = next(one for one in around if not isinstance(one, cst.BaseExpression | cst.Element))
    if isinstance(outer, cst.Return):
        uses.write(node, build_expression("list({t}.unbind())", t=tensor))
    _go(uses, node, replace(number, fresh=False))


def _go(uses: UseEdits, node: cst.BaseExpression, number: Number) -> None:
    """Follow a tuple of tensors that was a list of numbers."""
    parent = uses.document.parent(node)
    match parent:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple() | cst.List() as names)]):
            for element in names.elements:
                _to(uses, element.value, number)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
            known = find_definitions(uses.document, name)
            if known is None:
                raise NotApplicable("the numbers are in a global variable")
            for use in known.uses(name):
                if known.reaching[use] != frozenset({name}):
                    raise NotApplicable("the name may hold a plain list too")
                _go(uses, use, number)
        case cst.For() if parent.iter is node:
            _to(uses, parent.target, number)
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=index))]):
            if uses.kind(index) is not int:
                raise NotApplicable("not one number is taken of the list")
            uses.absorb(parent, number)
        case cst.Arg(keyword=None):
            _passed(uses, node, parent, number)
        case cst.Return():
            uses.note(RETURNED)
        case cst.Attribute() if parent.attr.value in STORES:
            raise NotApplicable("the list is changed")
        case _:
            read(uses, node, number)


def _passed(uses: UseEdits, node: cst.BaseExpression, arg: cst.Arg, number: Number) -> None:
    """`for i, n in enumerate(numbers)`, `zip(numbers, names)`."""
    call = uses.document.parent(arg)
    loop = uses.document.parent(call)
    called = uses.site.calls(call)
    if not isinstance(call, cst.Call) or not isinstance(loop, cst.For) or loop.iter is not call:
        read(uses, node, number)
    elif called == "reversed":
        _to(uses, loop.target, number)
    elif called in ("enumerate", "zip") and isinstance(loop.target, cst.Tuple):
        place = 1 if called == "enumerate" else call.args.index(arg)
        _to(uses, loop.target.elements[place].value, number)
    else:
        raise NotApplicable(f"`{called}` may need numbers")


def _to(uses: UseEdits, target: cst.BaseExpression, number: Number) -> None:
    """One of the numbers is assigned."""
    match target:
        case cst.Name():
            uses.name(target, number)
        case cst.Attribute() | cst.Subscript():
            uses.note(KEPT)
        case _:
            raise NotApplicable("it is taken apart")
