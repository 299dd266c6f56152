"""`torch.randint` draws the numbers that `random_` writes into a new tensor.

TorchDynamo breaks the graph at `Tensor.random_`. `torch.randint` makes a tensor and calls `random_`
on it, so eager code draws the same numbers on every device.

Before:

    cutoff = torch.empty([], dtype=torch.int64, device=ws.device).random_(1, ws.shape[1])
    noise = x.new_empty(len(x), 2).random_(5)

After:

    cutoff = torch.randint(1, ws.shape[1], [], dtype=torch.int64, device=ws.device)
    noise = torch.randint(5, (len(x), 2), dtype=x.dtype, device=x.device)

`torch.empty_like(x).random_(5)` becomes `torch.randint_like(x, 5)`. Where the tensor was made
without a dtype, the numbers are of `torch.get_default_dtype()` as before.

Refuses: `random_` with other arguments than one or two bounds in order; tensors that were not made
by `empty` or `zeros` in the same expression, or with other options than `dtype` and `device`; sizes
of which it is not known whether they are a number or a shape.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site, parameter_of, walk
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression, dotted_name

_WHY = "`torch.randint` draws the same numbers into a new tensor, in the graph."
_DRAW = m.Call(func=m.Attribute(value=m.Call(), attr=m.Name("random_")))
_NEW = ("new_empty", "new_zeros")
_OWN = ("dtype", "device")
"""Attributes of a tensor that its methods `_NEW` give to the new tensor."""
_SHAPES = {"tuple", "list", "torch.Size"}


def rewrite(site: Site) -> Rewrite | Refusal | None:
    found = (one for one in walk(site.node) if isinstance(one, cst.Call) and m.matches(one, _DRAW))
    if (draw := next(found, None)) is None:
        return None
    made = cst.ensure_type(cst.ensure_type(draw.func, cst.Attribute).value, cst.Call)
    bounds = [one.value for one in draw.args if one.keyword is None and not one.star]
    is_open = any(m.matches(one, m.Name("None")) for one in bounds)
    if len(bounds) != len(draw.args) or len(bounds) not in (1, 2) or is_open:
        return Refusal("`random_` has other arguments than one or two bounds in order")
    options = {one.keyword.value: one.value for one in made.args if one.keyword is not None}
    sizes = [one for one in made.args if one.keyword is None]
    name, torch = site.document.qualified_name(made.func), site.document.torch
    owner = made.func.value if isinstance(made.func, cst.Attribute) else made
    parts = bounds
    assumes: tuple[str, ...] = ()
    if options.keys() - {*_OWN} or any(one.star == "**" for one in made.args):
        return Refusal("the tensor has more options than a dtype and a device")
    if name in ("torch.empty_like", "torch.zeros_like") and len(sizes) == 1:
        function, parts = "randint_like", [sizes[0].value, *bounds]
    elif name in ("torch.empty", "torch.zeros"):
        function = "randint"
        options = {"dtype": build_expression(f"{torch}.get_default_dtype()"), **options}
    elif name.rpartition(".")[2] in _NEW and site.is_tensor(owner) and dotted_name(owner):
        function = "randint"
        own = {one: build_expression(f"{{owner}}.{one}", owner=owner) for one in _OWN}
        options = {**own, **options}
        if parameter_of(site.document, owner) is not None:
            assumes = (f"`{site.document.code(owner)}` is of no subclass of Tensor",)
    else:
        return Refusal("`random_` changes a tensor that was made elsewhere")
    if function == "randint":
        shape = _shape_of(site, sizes)
        if shape is None:
            return Refusal("it is not known whether its size is a number or a shape")
        parts = [*bounds, shape]
    texts = (f"{one}={{{one}}}" for one in options)
    new = cst.ensure_type(
        build_expression(f"{torch}.{function}({', '.join(texts)})", **options), cst.Call
    )
    args = [*(cst.Arg(one) for one in parts), *new.args]
    drawn = new.with_changes(args=args)
    return Rewrite({draw: drawn}, _WHY, assumes=assumes, imports=("torch",))


def _shape_of(site: Site, sizes: list[cst.Arg]) -> cst.BaseExpression | None:
    """Return the shape that the sizes of a new tensor are: `(2, n)`; None if it is not known."""
    if len(sizes) == 1 and not sizes[0].star:
        size = sizes[0].value
        seen = site.observed(size)
        kinds = set(seen.types) if seen is not None else set()
        if isinstance(size, cst.Tuple | cst.List) or (kinds and kinds <= _SHAPES):
            return size
        if not isinstance(size, cst.Integer) and kinds != {"int"}:
            return None
    elements = [
        cst.StarredElement(one.value) if one.star else cst.Element(one.value) for one in sizes
    ]
    return cst.Tuple(elements) if sizes else None


RULE = Rule("FG704", "draw-integers", frozenset({Category.TENSOR_MUTATION.value}), rewrite)
