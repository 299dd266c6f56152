"""`float(np.mean(a))` and `a.item()` extract a scalar from an array, which breaks the graph.

Traced arrays are tensors, so the number can stay one.

Before:

    scale = float(np.mean(x.detach().cpu().numpy()))
    limit = np.percentile(x.numpy(), 95).item()
    return (x * scale).clamp(max=limit)

After:

    scale = x.detach().mean()
    limit = torch.as_tensor(np.percentile(x.numpy(), 95)).detach()
    return (x * scale).clamp(max=limit)

Unsafe for means and the like of arguments, which may be whole numbers: NumPy's mean of these is a
float64, and torch has none. Also for the reasons of FG201: where the number is kept, returned, or
divided by.

Refuses: what FG201 refuses: numbers that become sizes, text, keys or the test of a branch; and
arrays of which no dtype was seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst
import libcst.matchers as m
import torch

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    find_all,
    only_value,
    parameter_of,
    walk,
)
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.scalars.calls import FINITE
from fullgraph.rewrites.transforms.scalars.scalar import Number, scalar_type_of
from fullgraph.rewrites.transforms.scalars.uses import Uses

_SAME = ("mean", "sum", "prod", "max", "min", "amax", "amin")
"""Reductions of a whole array that are also methods of tensors."""
_KINDS_KEPT = frozenset(_SAME) - {"mean"}
"""Those of whole numbers that are whole numbers."""


def rewrite(site: Site) -> Rewrite | Refusal | None:
    for node in walk(site.node):
        match node:
            case cst.Call(func=cst.Attribute(value=array, attr=cst.Name("item")), args=[]):
                conversion = "item"
            case cst.Call(
                func=cst.Name("int" | "float" as conversion), args=[cst.Arg(value=array)]
            ):
                pass
            case _:
                continue
        seen = site.observed(array)
        if seen is not None and seen.is_ndarray:
            return _keep_number(site, node, array, conversion)
    return None


def _keep_number(
    site: Site, node: cst.BaseExpression, array: cst.BaseExpression, conversion: str
) -> Rewrite | Refusal:
    """Return the rewrite that uses a 0-d tensor in place of `node`, or a refusal.

    `node` converts the array `array` to a Python number; `conversion` says how: "item" for
    `array.item()`, "int" for `int(array)`, "float" for `float(array)`.
    """
    seen = site.observed(array)
    names = {name.removeprefix("numpy.") for name in seen.types} if seen is not None else set()
    dtype = getattr(torch, names.pop(), None) if len(names) == 1 else None
    kind = scalar_type_of(dtype) if isinstance(dtype, torch.dtype) else None
    if kind is None or not isinstance(dtype, torch.dtype):
        return Refusal("the dtype of the array is not known")
    uses = Uses(site)
    if dtype.is_floating_point:
        for name in _arguments_in(site, array):
            uses.assume(f"`{name}` is of a floating dtype in each call")
    number = Number(kind, dtype)
    try:
        new = _tensor_expression(site, array) or _from_array(uses, array)
        if conversion == "int" and dtype.is_floating_point:
            new = build_expression("{new}.trunc()", new=new)
            uses.assume(FINITE)
        uses.write(node, new)
        if conversion == "float" and not dtype.is_floating_point:
            number = uses.cast(node, number, torch.float32)
        number = replace(number, kind={"int": int, "float": float}.get(conversion, kind))
        uses.propagate(node, number)
    except NotApplicable as why:
        return Refusal(str(why))
    return Rewrite(
        uses.replacements(),
        "A traced array is a tensor: its number can stay one, inside the graph.",
        assumes=tuple(uses.assumes),
        imports=tuple(dict.fromkeys(uses.imports)),
        numbers=uses.numbers,
    )


def _arguments_in(site: Site, array: cst.BaseExpression) -> Iterator[str]:
    """Yield the arguments from whose whole numbers NumPy would compute a fraction, once each."""
    document = site.document
    match made := only_value(document, array) or array:
        case cst.Call(func=cst.Attribute(attr=cst.Name(name))) if name not in _KINDS_KEPT:
            pass
        case _:
            return
    names = [one for one in walk(made) if isinstance(one, cst.Name)]
    values = [only_value(document, one) or one for one in names]
    given = [parameter_of(document, one) for one in values]
    yield from dict.fromkeys(one.name.value for one in given if one is not None)


def _from_array(uses: Uses, array: cst.BaseExpression) -> cst.BaseExpression:
    """Return `torch.as_tensor(array)`, and add the import of torch to `uses`.

    In traced code an array has a gradient, and an element shares memory with it.
    """
    uses.imports.append("torch")
    clone = ".clone()" if isinstance(array, cst.Subscript) else ""
    form = f"torch.as_tensor({{array}}){_detach(array)}{clone}"
    return build_expression(form, array=array)


def _detach(array: cst.BaseExpression) -> str:
    """Return the call that the tensor of an array needs to have no gradient, as the array."""
    return "" if find_all(array, m.Attribute(attr=m.Name("detach"))) else ".detach()"


def _tensor_expression(site: Site, array: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the torch form of a NumPy reduction: `x.mean()` for `np.mean(x.cpu().numpy())`.

    None if `array` is not a supported reduction of a float tensor that is converted to an array.
    """
    name = site.callee_name(array).removeprefix("numpy.")
    match array:
        case cst.Call(func=cst.Attribute(), args=[cst.Arg(value=inner, keyword=None)]):
            called = name if site.callee_name(array) == f"numpy.{name}" else ""
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(called)), args=[]):
            pass
        case _:
            return None
    if called not in _SAME:
        return None
    match inner:
        case cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name("numpy")), args=[]):
            pass
        case _:
            return None
    seen = site.observed(tensor)
    if seen is None or not seen.is_tensor or not seen.dtypes <= {"float32", "float64"}:
        return None
    match tensor:
        case cst.Call(func=cst.Attribute(value=on_device, attr=cst.Name("cpu")), args=[]):
            tensor = on_device
    return build_expression(f"{{x}}{_detach(tensor)}.{called}()", x=tensor)


RULE = Rule(
    "FG233",
    "keep-array-number",
    frozenset({Category.NUMPY_SCALAR.value, Category.SCALAR.value, Category.NUMPY.value}),
    rewrite,
)
