"""Numbers that go into tuples, lists and dictionaries, and come out of them again."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst
import torch

from fullgraph.rewrites.analysis import NotApplicable, find_definitions
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.scalars.scalar import Number, combined
from fullgraph.rewrites.transforms.scalars.use_edits import UseEdits

KEPT = "whoever reads the number that is kept can do with a tensor"
RETURNED = "the caller can do with a tensor in place of the number"
STORES = frozenset({"append", "appendleft", "add", "extend", "insert", "update", "setdefault"})
"""Methods of containers that keep what they are given."""
_TO_TENSOR = ("torch.tensor", "torch.as_tensor")
_MEANS = ("numpy.mean", "numpy.average", "statistics.mean", "statistics.fmean")
_DISPLAYS = cst.Tuple | cst.List | cst.Dict | cst.Element | cst.DictElement


def put(uses: UseEdits, node: cst.BaseExpression, number: Number) -> None:
    """Let a tensor be an element of the display or comprehension that holds `node`.

    Raises NotApplicable.
    """
    element = uses.document.parent(node)
    if isinstance(element, cst.DictElement) and element.key is node:
        raise NotApplicable("it is a key")
    whole = element
    for around in uses.document.around(element):
        if not isinstance(around, _DISPLAYS):
            break
        whole = around
    if isinstance(element, cst.ListComp | cst.GeneratorExp):
        number = replace(number, mixed=True)  # of no rounds at all the sum is a plain 0
    assert isinstance(whole, cst.BaseExpression)
    parent = uses.document.parent(whole)
    match parent:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple() as names)]):
            _taken_apart(uses, names, whole, node, number)
        case cst.Assign():
            uses.keep(node, number)
            for one in parent.targets:
                if isinstance(one.target, cst.Name):
                    held(uses, one.target, number)
                else:
                    uses.note(KEPT)
        case cst.Return():
            uses.keep(node, number)
            uses.note(RETURNED)
        case cst.Arg(star=""):
            read(uses, whole, replace(number, mixed=number.mixed or _has_numbers(uses, whole)))
        case _:
            raise NotApplicable("it goes into a container")


def held(uses: UseEdits, binding: cst.Name, number: Number) -> None:
    """Follow the container that a name is bound to."""
    known = find_definitions(uses.document, binding)
    if known is None:
        raise NotApplicable("it goes into a global container")
    bindings = known.reaching.get(binding, frozenset({binding}))
    for use in {use: None for one in bindings for use in known.uses(one)}:
        if use not in uses.done:
            uses.done.add(use)
            read(uses, use, replace(number, mixed=True))


def read(uses: UseEdits, container: cst.BaseExpression, number: Number) -> None:
    """Let a container of numbers, at a place that reads it, be one of tensors.

    Raises NotApplicable.
    """
    parent = uses.document.parent(container)
    match parent:
        case cst.Arg():
            _passed(uses, container, parent, number)
        case cst.Attribute() if parent.attr.value in STORES:
            pass
        case cst.Return():
            uses.note(RETURNED)
        case cst.Element() | cst.DictElement():
            whole = next(
                one for one in uses.document.around(parent) if not isinstance(one, _DISPLAYS)
            )
            if not isinstance(whole, cst.Return):
                raise NotApplicable("it goes into a container that is read again")
            uses.note(RETURNED)
        case cst.AssignTarget():
            pass
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Attribute() | cst.Subscript())]):
            uses.note(KEPT)
        case _:
            raise NotApplicable("it goes into a container that is read again")


def _passed(uses: UseEdits, container: cst.BaseExpression, arg: cst.Arg, number: Number) -> None:
    call = uses.document.parent(arg)
    assert isinstance(call, cst.Call)
    called = uses.site.calls(call)
    options = {one.keyword.value for one in call.args if one.keyword is not None}
    first = call.args[0] is arg and arg.keyword is None
    if called == "len":
        return
    if called == "sum" and len(call.args) == 1:
        uses.absorb(call, combined(number, int, False))
    elif called in _TO_TENSOR and first and options <= {"dtype", "device"}:
        if "dtype" not in options and number.dtype is not torch.tensor(number.kind(1)).dtype:
            raise NotApplicable(
                f"`{called}` of tensors keeps their dtype, and of numbers it does not"
            )
    elif called in _MEANS and len(call.args) == 1 and number.dtype.is_floating_point:
        if isinstance(container, cst.List) and _has_numbers(uses, container):
            raise NotApplicable("it is averaged together with plain numbers")
        new = build_expression("torch.stack({all}).mean()", all=_as_list(container))
        uses.write(call, new, "torch")
        uses.absorb(call, Number(float, number.dtype, computed=True))
    elif isinstance(call.func, cst.Attribute) and call.func.attr.value in STORES:
        uses.note(KEPT)
    else:
        raise NotApplicable(f"`{uses.document.code(call.func)}` may need numbers")


def _as_list(container: cst.BaseExpression) -> cst.BaseExpression:
    if not isinstance(container, cst.GeneratorExp):
        return container
    return cst.ListComp(elt=container.elt, for_in=container.for_in)


def _has_numbers(uses: UseEdits, whole: cst.CSTNode) -> bool:
    """Whether plain numbers stand in a display, which cannot be stacked or summed as tensors."""
    elements = whole.elements if isinstance(whole, cst.List | cst.Tuple) else ()
    return any(uses.kind(element.value) is not None for element in elements)


def _taken_apart(
    uses: UseEdits, names: cst.Tuple, value: cst.CSTNode, node: cst.BaseExpression, number: Number
) -> None:
    """`a, b = x.item(), 1`"""
    elements = value.elements if isinstance(value, cst.Tuple) else ()
    place = [n for n, element in enumerate(elements) if element.value is node]
    if not place or len(elements) != len(names.elements):
        raise NotApplicable("it is taken apart")
    target = names.elements[place[0]].value
    uses.keep(node, number)
    if isinstance(target, cst.Name):
        uses.name(target, replace(number, fresh=False))
    else:
        uses.note(KEPT)
