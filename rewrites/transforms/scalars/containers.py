"""Numbers stored in tuples, lists and dictionaries, and the uses of these containers."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst
import torch

from fullgraph.rewrites.analysis import NotApplicable, assigned_value, find_definitions
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.scalars.scalar import Number, arithmetic_result
from fullgraph.rewrites.transforms.scalars.use_edits import UseEdits

KEPT = "code that reads the stored value accepts a tensor"
RETURNED = "the caller accepts a tensor in place of the number"
STORES = frozenset({"append", "appendleft", "add", "extend", "insert", "update", "setdefault"})
"""Methods of containers that store their arguments."""
_TO_TENSOR = ("torch.tensor", "torch.as_tensor")
_MEANS = ("numpy.mean", "numpy.average", "statistics.mean", "statistics.fmean")
_DISPLAYS = cst.Tuple | cst.List | cst.Dict | cst.Element | cst.DictElement


def allow_tensor_element(uses: UseEdits, node: cst.BaseExpression, number: Number) -> None:
    """Edit the uses of a container whose element `node` becomes a tensor: `n` in `[n, 1]`.

    Raises NotApplicable if a use needs a number.
    """
    element = uses.document.parent(node)
    if isinstance(element, cst.DictElement) and element.key is node:
        raise NotApplicable("it is a key")
    whole = element
    for around in uses.document.ancestors(element):
        if not isinstance(around, _DISPLAYS):
            break
        whole = around
    if isinstance(element, cst.ListComp | cst.GeneratorExp):
        number = replace(number, may_be_plain=True)  # of no rounds at all the sum is a plain 0
    assert isinstance(whole, cst.BaseExpression)
    parent = uses.document.parent(whole)
    match parent:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple() as names)]):
            _propagate_to_unpacked(uses, names, whole, node, number)
        case cst.Assign():
            uses.clone_if_shared(node, number)
            for one in parent.targets:
                if isinstance(one.target, cst.Name):
                    propagate_to_container(uses, one.target, number)
                else:
                    uses.assume_reader_accepts_tensor(KEPT)
        case cst.AugAssign(target=cst.Name() as name, operator=cst.AddAssign()):
            uses.clone_if_shared(node, number)
            propagate_to_container(uses, name, number)
        case cst.Return():
            uses.clone_if_shared(node, number)
            uses.assume_reader_accepts_tensor(RETURNED)
        case cst.Arg(star=""):
            propagate_to_container_use(
                uses,
                whole,
                replace(number, may_be_plain=number.may_be_plain or _has_numbers(uses, whole)),
            )
        case _:
            raise NotApplicable("it goes into a container")


def propagate_to_container(uses: UseEdits, binding: cst.Name, number: Number) -> None:
    """Edit all uses of the variable `binding`, whose container now holds tensors.

    Raises NotApplicable if a use needs numbers.
    """
    known = find_definitions(uses.document, binding)
    if known is None:
        raise NotApplicable("it goes into a global container")
    bindings = {binding, *known.reaching.get(binding, ())}
    for use in {use: None for one in bindings for use in known.uses(one)}:
        if use not in uses.visited:
            uses.visited.add(use)
            propagate_to_container_use(uses, use, replace(number, may_be_plain=True))


def propagate_to_container_use(
    uses: UseEdits, container: cst.BaseExpression, number: Number
) -> None:
    """Edit one use of a container so that its elements may be tensors.

    Raises NotApplicable if the use needs numbers.
    """
    parent = uses.document.parent(container)
    match parent:
        case cst.Arg():
            _propagate_to_call(uses, container, parent, number)
        case cst.Attribute() if parent.attr.value in STORES:
            pass
        case cst.Return():
            uses.assume_reader_accepts_tensor(RETURNED)
        case cst.Index():
            _stack_indices(uses, container, parent, number)
        case cst.Element() | cst.DictElement():
            whole = next(
                one for one in uses.document.ancestors(parent) if not isinstance(one, _DISPLAYS)
            )
            if not isinstance(whole, cst.Return):
                raise NotApplicable("it goes into a container that is read again")
            uses.assume_reader_accepts_tensor(RETURNED)
        case cst.AssignTarget():
            pass
        case cst.AugAssign(target=cst.Name() as name) if name is container:
            propagate_to_container(uses, name, number)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Attribute() | cst.Subscript())]):
            uses.assume_reader_accepts_tensor(KEPT)
        case _:
            raise NotApplicable("it goes into a container that is read again")


def _propagate_to_call(
    uses: UseEdits, container: cst.BaseExpression, arg: cst.Arg, number: Number
) -> None:
    """Edit a call so that `container`, which it takes as `arg`, may hold tensors.

    Raises NotApplicable if the call needs numbers.
    """
    call = uses.document.parent(arg)
    assert isinstance(call, cst.Call)
    called = uses.site.callee_name(call)
    options = {one.keyword.value for one in call.args if one.keyword is not None}
    first = call.args[0] is arg and arg.keyword is None
    if called == "len":
        return
    if called == "sum" and len(call.args) == 1:
        uses.propagate(call, arithmetic_result(number, int, False))
    elif called in _TO_TENSOR and first and options <= {"dtype", "device"}:
        if "dtype" not in options and number.dtype is not torch.tensor(number.kind(1)).dtype:
            raise NotApplicable(
                f"`{called}` of tensors keeps their dtype, and of numbers it does not"
            )
    elif called in _MEANS and len(call.args) == 1 and number.dtype.is_floating_point:
        if isinstance(container, cst.List) and _has_numbers(uses, container):
            raise NotApplicable("it is averaged together with plain numbers")
        new = build_expression("torch.stack({all}).mean()", all=_list_of(container))
        uses.write(call, new, "torch")
        uses.propagate(call, Number(float, number.dtype, is_computed=True))
    elif isinstance(call.func, cst.Attribute) and call.func.attr.value in STORES:
        uses.assume_reader_accepts_tensor(KEPT)
    else:
        raise NotApplicable(f"`{uses.document.code(call.func)}` may need numbers")


def _stack_indices(
    uses: UseEdits, container: cst.BaseExpression, index: cst.Index, number: Number
) -> None:
    """Rewrite `x[at]` to `x[torch.stack(at)]`, where the list `at` now holds 0-d tensors.

    Raises NotApplicable unless a comprehension makes the list, and it indexes a tensor.
    """
    subscript = uses.document.parent(uses.document.parent(index))
    if not isinstance(subscript, cst.Subscript) or not uses.is_tensor(subscript.value):
        raise NotApplicable("it goes into a container that indexes what is no tensor")
    if number.kind is not int or number.dtype not in (torch.int64, torch.int32):
        raise NotApplicable("it is no whole number")
    known = find_definitions(uses.document, container)
    bindings = (
        known.reaching.get(container, ()) if known and isinstance(container, cst.Name) else ()
    )
    values = [assigned_value(uses.document, one) for one in bindings]
    if not values or not all(isinstance(one, cst.ListComp) for one in values):
        raise NotApplicable("it is an index together with others")
    uses.assume(f"`{uses.document.code(container)}` is not empty")
    uses.write(container, build_expression("torch.stack({all})", all=container), "torch")


def _list_of(container: cst.BaseExpression) -> cst.BaseExpression:
    """Return a generator expression as a list comprehension; other containers unchanged."""
    if not isinstance(container, cst.GeneratorExp):
        return container
    return cst.ListComp(elt=container.elt, for_in=container.for_in)


def _has_numbers(uses: UseEdits, whole: cst.CSTNode) -> bool:
    """Return whether a list or tuple such as `[n, 1]` also contains plain numbers.

    `torch.stack` does not accept them.
    """
    elements = whole.elements if isinstance(whole, cst.List | cst.Tuple) else ()
    return any(uses.kind(element.value) is not None for element in elements)


def _propagate_to_unpacked(
    uses: UseEdits, names: cst.Tuple, value: cst.CSTNode, node: cst.BaseExpression, number: Number
) -> None:
    """Edit the uses of `a` in `a, b = x.item(), 1`, where `x.item()` becomes a tensor.

    `node` is `x.item()`, `names` are the targets `a, b`, and `value` is the assigned tuple. Raises
    NotApplicable if a use needs a number.
    """
    elements = value.elements if isinstance(value, cst.Tuple) else ()
    place = [n for n, element in enumerate(elements) if element.value is node]
    if not place or len(elements) != len(names.elements):
        raise NotApplicable("it is taken apart")
    target = names.elements[place[0]].value
    uses.clone_if_shared(node, number)
    if isinstance(target, cst.Name):
        uses.propagate_to_name(target, replace(number, owns_memory=False))
    else:
        uses.assume_reader_accepts_tensor(KEPT)
