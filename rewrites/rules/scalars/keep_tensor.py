"""`.item()`, `int(t)`, `float(t)` and `bool(t)` extract a scalar from a tensor: a graph break.

In arithmetic a tensor without dimensions does the same, inside the graph.

Before:

    loss = loss / max(1, mask.sum().item())
    scale = float(x.abs().max())
    y = y * (scale + 1e-6)
    self.stats["sum"] = x.sum().item()

After:

    loss = loss / mask.sum().clamp(min=1)
    scale = x.abs().max().detach()
    y = y * (scale + 1e-6)
    self.stats["sum"] = x.sum().detach()

A number carries no gradient, so a floating-point tensor is detached; its dtype is converted where a
number would have given another one, and to float64 where an attribute of `self` accumulates the
number, as in `self.mean = 0.9 * self.mean + 0.1 * x.mean().detach().double()`. Lists of numbers
(`.tolist()`) become tuples of tensors, and a place in a tensor stays a tensor too:

Before:

    ptr = int(self.queue_ptr)
    self.queue[:, ptr : ptr + n] = keys.T
    low, high = bounds.tolist()

After:

    ptr = self.queue_ptr.reshape(())
    self.queue[:, ptr + torch.arange(n, device=self.queue.device)] = keys.T.to(self.queue.dtype)
    low, high = bounds.unbind()

A tensor that is an index gets a dimension, because indexing would make a number of it: `table[i]`
becomes `table[i[None]].squeeze(0)`, and what is assigned to it is converted to its dtype, as
before. If `i` may be an int in another call, because an annotation or a default names one or a
function returned it, `i = torch.as_tensor(i, device=table.device)` comes first. Where several lines
have the slice `ptr : ptr + n`, a variable `positions` holds the indices for all. A list of numbers
that is an index becomes `torch.stack(numbers)`. Functions of numbers in `math` and NumPy become
methods. A slice that is reduced is the whole dimension, masked; lists in the list are tensors:

Before:

    for b, (start, end) in enumerate(spans.tolist()):
        pooled.append(hidden[b, start:end].mean(dim=0))

After:

    for b, (start, end) in enumerate(spans.unbind()):
        positions = torch.arange(hidden.shape[1], device=hidden.device)
        inside = ((positions >= start) & (positions < end))[:, None]
        pooled.append(torch.where(inside, hidden[b], 0).sum(dim=0) / inside.sum())

`x.roll(n, 0)` selects with
`(torch.arange(len(x)) - n) % len(x)`, and `x.clamp(0, t)` with a tensor `t` is
`x.clamp(min=0).clamp(max=t)`. `torch.fake_quantize_per_tensor_affine` takes scale and zero point as
tensors. A slice that is assigned becomes a mask: `x[i, n:] = 0` is
`x[i].masked_fill_(torch.arange(x.shape[1]) >= n, 0)`.

Unsafe where the number is kept or returned, because code that reads it finds a tensor, where
Python raises and a tensor gives inf or NaN (division by zero, `math.log(0)`, `int(nan)`), and where
the tensor is an index into one that the class merely holds, which may be on another device, and
where `int(t)` of an argument may be that of a number, unless it is an index: then `int(t)` becomes
`torch.as_tensor(t, dtype=torch.int64, device=table.device)`.

Refuses: numbers that become sizes, text, keys, or an argument that must be a number; and numbers
that a branch depends on, unless they are an index or a bound of a slice too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m
import torch

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    find_all,
    find_definitions,
    has_no_gradient,
    is_new_tensor,
    torch_name,
)
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.masks.nonzero import parse_nonzero
from fullgraph.rewrites.transforms.number_tensor import as_tensor_text
from fullgraph.rewrites.transforms.scalars.calls import FINITE, propagate_to_argument
from fullgraph.rewrites.transforms.scalars.indices import rewrite_index, rewrite_slice_bounds
from fullgraph.rewrites.transforms.scalars.int_indices import table_of_index
from fullgraph.rewrites.transforms.scalars.positions import equal_slices, name_positions
from fullgraph.rewrites.transforms.scalars.scalar import Number, scalar_type_of
from fullgraph.rewrites.transforms.scalars.sequences import propagate_to_list
from fullgraph.rewrites.transforms.scalars.sizes import is_made_of_sizes
from fullgraph.rewrites.transforms.scalars.uses import Uses

_MATH = re.compile(r"math\.\w+")
_CONVERSIONS = {"int": int, "float": float, "bool": bool}


@dataclass(frozen=True)
class ScalarRead:
    """Expression that takes Python numbers out of a tensor."""

    node: cst.BaseExpression
    tensor: cst.BaseExpression
    method: str
    """"item", "tolist", "int", "float" or "bool"."""


def rewrite(site: Site) -> Rewrite | Refusal | None:
    found = _find_scalar_read(site, site.node)
    if found is None:
        return _rewrite_tensor_index(site) or _rewrite_tensor_argument(site)
    seen = site.observed(found.tensor)
    if seen is None or not seen.is_tensor:
        return Refusal("it is not known to be a tensor")
    if is_made_of_sizes(site, found.node):
        return None  # the number needs no tensor
    if parse_nonzero(site, found.tensor) is not None:
        return Refusal("how many indices there are depends on the data")
    if any(t.layout != "strided" for t in seen.tensors):
        return Refusal("the tensor is not dense")
    if len(seen.dtypes) > 1:
        return Refusal("the tensor is of several dtypes")
    dtype: torch.dtype = getattr(torch, next(iter(seen.dtypes)))
    kind = scalar_type_of(dtype)
    if kind is None:
        return Refusal("the number is complex")
    if found.method == "bool" and _says_bool(site):
        return Refusal("the function says that it returns a bool")
    number = Number(kind, dtype, is_new_tensor(site, found.tensor))
    try:
        if found.method == "tolist" and seen.dims != {0}:
            if len(seen.dims) != 1:
                return Refusal("the list is nested as often as the tensor has dimensions")
            (depth,) = seen.dims
            uses = Uses(site, may_decide=True)
            propagate_to_list(uses, found.node, _detach(found.tensor, number), number, depth)
        else:
            uses = _write_tensor(site, found, number, is_scalar=seen.shapes == {()})
    except NotApplicable as why:
        return Refusal(str(why))
    if uses.decides and not uses.selects:  # then FG301 and FG305 edit the branch with the number
        return Refusal("it decides which branch is taken")
    return _rewrite_of(uses)


def _rewrite_of(uses: Uses) -> Rewrite:
    edits = name_positions(uses)
    return Rewrite(
        edits,
        "A 0-d tensor takes the scalar's place inside the graph.",
        assumes=tuple(uses.assumes),
        imports=tuple(dict.fromkeys(uses.imports)),
        numbers=uses.numbers,
    )


def _rewrite_tensor_index(site: Site) -> Rewrite | Refusal | None:
    """Rewrite `table[i]` with a 0-d tensor `i` to `table[i[None]].squeeze(0)`, and slices.

    Dynamo would convert the 0-d tensor to a Python number.
    """
    if _loops_over_indices(site):
        return None
    for one in _tensor_indices(site):
        seen = site.observed(one)
        if seen is None or not seen.is_tensor or seen.shapes != {()}:
            continue
        number = Number(int, getattr(torch, next(iter(seen.dtypes))))
        uses = Uses(site)
        bounds = isinstance(site.document.parent(one), cst.Slice)
        try:
            if bounds:
                rewrite_slice_bounds(uses, one, number)
                _rewrite_equal_slices(uses, number)
            else:
                rewrite_index(uses, one, number)
        except NotApplicable as why:
            return Refusal(str(why))
        edits = name_positions(uses)
        return Rewrite(
            edits,
            "The bounds of the slice stay tensors."
            if bounds
            else "An index of one dimension stays a tensor.",
            assumes=tuple(uses.assumes),
            imports=tuple(dict.fromkeys(uses.imports)),
        )
    return None


def _rewrite_equal_slices(uses: Uses, number: Number) -> None:
    """Rewrite the slices with the bounds of the one that was rewritten, so that all share a name.

    `number` is the tensor that is their lower bound.
    """
    for piece in list(uses.positions):
        for same in equal_slices(uses.document, piece):
            if same.lower is not None and same not in uses.positions:
                with suppress(NotApplicable):
                    rewrite_slice_bounds(uses, same.lower, number)


def _rewrite_tensor_argument(site: Site) -> Rewrite | Refusal | None:
    """Rewrite a call that takes a number out of an argument: `x.clamp(0, t)` with a tensor `t`.

    Eager refuses arguments that require a gradient, so nothing is detached.
    """
    call, reason = site.node, None
    if not isinstance(call, cst.Call) or not torch_name(site, call):
        return None
    for arg in call.args:
        seen = site.observed(arg.value)
        if seen is None or not seen.is_tensor or len(seen.dtypes) != 1:
            continue
        dtype: torch.dtype = getattr(torch, next(iter(seen.dtypes)))
        kind = scalar_type_of(dtype)
        if kind is None or any(math.prod(shape) != 1 for shape in seen.shapes):
            continue
        uses = Uses(site)
        if seen.shapes != {()}:
            uses.append_call(arg.value, Number(kind, dtype), ".reshape(())")
        try:
            propagate_to_argument(uses, arg, Number(kind, dtype))
        except NotApplicable as why:
            reason = str(why)
        else:
            return _rewrite_of(uses) if call in uses.texts else None
    return Refusal(reason) if reason is not None else None


def _loops_over_indices(site: Site) -> bool:
    """Return whether the site is in a loop over `m.nonzero()` or `t.unique()`.

    The index is a number once the loop runs over all indices.
    """
    loops = [one for one in site.document.ancestors(site.node) if isinstance(one, cst.For)]
    calls = [call for loop in loops for call in find_all(loop.iter, m.Call())]
    names = ("torch.unique", "torch.Tensor.unique")
    return any(
        parse_nonzero(site, call) is not None or site.callee_name(call) in names
        for call in calls
        if isinstance(call, cst.Call)
    )


def _tensor_indices(site: Site) -> Iterator[cst.BaseExpression]:
    """Yield the single indices and the slice bounds at a site, which may be 0-d tensors."""
    for one in (site.node, *find_all(site.node, m.Subscript() | m.Slice())):
        parts = [part.slice for part in one.slice] if isinstance(one, cst.Subscript) else [one]
        for part in parts:
            if isinstance(part, cst.Index):
                yield part.value
            elif isinstance(part, cst.Slice):
                yield from (bound for bound in (part.lower, part.upper) if bound is not None)


def _write_tensor(
    site: Site,
    found: ScalarRead,
    number: Number,
    *,
    is_scalar: bool,
    is_double: bool = False,
    table: str = "",
) -> Uses:
    """Replace `found`, such as `x.item()`, by its tensor, as a 0-d tensor, and edit its uses.

    `number` describes the number that `found` returned, `is_scalar` says whether the tensor is 0-d
    already. The new tensor is of float64 if `is_double`, or if an attribute of `self` accumulates
    it. An argument that may be a number is converted for the device of the tensor `table`, which it
    indexes, unless that is "". Raises NotApplicable.
    """
    uses = Uses(site, may_decide=True)
    new, floating = found.tensor, number.dtype.is_floating_point
    may_be_number = found.method in _CONVERSIONS and _may_be_number(site, found.tensor)
    if table:
        dtype = f"{site.document.torch}.int64"
        code = as_tensor_text(site.document, site.document.code(new), table, dtype)
        new, number = build_expression(code), replace(number, dtype=torch.int64)
        uses.imports.append("torch")
    elif may_be_number:
        uses.assume(f"`{uses.document.code(found.tensor)}` is a tensor in each call")
    if not is_scalar:
        new = build_expression("{tensor}.reshape(())", tensor=new)
    if found.method == "int" and floating:
        new = build_expression("{new}.trunc()", new=new)
        uses.assume(FINITE)
    learns, now = not has_no_gradient(site, found.tensor), number
    if found.method == "bool":
        learns = False
        new = new if number.dtype is torch.bool else build_expression("{new} != 0", new=new)
        now = replace(number, dtype=torch.bool)
    uses.write(found.node, _detach(new, number) if learns else new)
    if is_double:
        now = uses.cast(found.node, number, torch.float64)
    elif found.method == "float" and not floating:
        now = uses.cast(found.node, number, torch.float32)
    kind = _CONVERSIONS.get(found.method, number.kind)
    now = replace(now, kind=kind, owns_memory=now.owns_memory or (kind is int and floating))
    uses.propagate(found.node, now)
    if uses.accumulates and kind is float and now.dtype is not torch.float64:
        return _write_tensor(site, found, number, is_scalar=is_scalar, is_double=True)
    if table:  # its index is on its device now
        for clause in [one for one in uses.assumes if one.endswith(f"the device of `{table}`")]:
            del uses.assumes[clause]
    elif (
        may_be_number
        and kind is int
        and not floating
        and (indexed := table_of_index(uses, found.node))
    ):
        return _write_tensor(site, found, number, is_scalar=is_scalar, table=indexed)
    return uses


def _may_be_number(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether a value is an argument that is not said to be a tensor: `int(t)`."""
    known = find_definitions(site.document, node)
    if known is None or not isinstance(node, cst.Name):
        return False
    found = [site.document.parent(one) for one in known.reaching.get(node, frozenset())]
    hints = [one.annotation for one in found if isinstance(one, cst.Param)]
    return any(one is None or "Tensor" not in site.document.code(one) for one in hints)


def _says_bool(site: Site) -> bool:
    """Return whether a site is in the `return` of a function that says `-> bool`."""
    function, line = site.document.function(site.node), site.document.statement(site.node)
    return (
        isinstance(function, cst.FunctionDef)
        and m.matches(line, m.SimpleStatementLine([m.Return()]))
        and m.matches(function, m.FunctionDef(returns=m.Annotation(m.Name("bool"))))
    )


def _detach(tensor: cst.BaseExpression, number: Number) -> cst.BaseExpression:
    """Return `tensor.detach()`, or `tensor` if it is not floating-point or already detached."""
    detached = m.Call(func=m.Attribute(attr=m.Name("detach")))
    if not number.dtype.is_floating_point or m.matches(tensor, detached):
        return tensor
    return build_expression("{tensor}.detach()", tensor=tensor)


def _find_scalar_read(site: Site, node: cst.CSTNode) -> ScalarRead | None:
    """Return the first expression in `node` that takes numbers out of a tensor, or None."""
    for one in (node, *_calls_inside(node)):
        match one:
            case cst.Call(
                func=cst.Attribute(value=tensor, attr=cst.Name("item" | "tolist" as method)),
                args=[],
            ):
                if (seen := site.observed(tensor)) is None or not seen.is_ndarray:
                    return ScalarRead(one, tensor, method)
            case cst.Call(
                func=cst.Name("int" | "float" | "bool" as method), args=[cst.Arg(value=tensor)]
            ):
                if site.is_tensor(tensor):
                    return ScalarRead(one, tensor, method)
            case cst.Call(args=[cst.Arg(value=tensor, keyword=None)]):
                if _MATH.fullmatch(site.callee_name(one)) and site.is_tensor(tensor):
                    return ScalarRead(tensor, tensor, "item")
    return None


def _calls_inside(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the calls inside `node`; nothing if it is a compound statement."""
    if not isinstance(node, cst.BaseCompoundStatement):
        yield from find_all(node, m.Call())


RULE = Rule(
    "FG201",
    "keep-tensor",
    frozenset({Category.SCALAR.value, Category.NON_TENSOR.value, Category.BUILTIN.value}),
    rewrite,
)
