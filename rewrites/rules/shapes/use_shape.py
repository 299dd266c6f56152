"""`torch.tensor(x.size()).tolist()` makes a tensor of sizes and extracts them again.

The numbers were there before: `x.shape` is a tuple of them.

Before:

    h, w = torch.tensor(x.size()[2:]).tolist()

    shape = torch.tensor(image.shape[-2:])
    scale = torch.min(800 / shape.min(), 1333 / shape.max()).item()

After:

    h, w = x.size()[2:]

    shape = image.shape[-2:]
    scale = min(800 / min(shape), 1333 / max(shape))

Where a list may be needed, it becomes `list(x.size()[2:])`, and the largest size of each dimension,
`torch.stack([torch.tensor(s) for s in shapes]).max(0).values.tolist()`, becomes
`[max(column) for column in zip(*shapes)]`. A tensor that is needed itself stays,
beside the list that it is made of:

    lengths_list = [len(part) for part in parts]
    lengths = torch.tensor(lengths_list)
    places = torch.arange(max(lengths_list))  # was lengths.max().item()

Unsafe where sizes are divided: torch does that in float32, and Python in float64.

Refuses: `torch.tensor(…)` of anything that was not seen to be a shape or a tuple or list of
integers; tensors of sizes that are needed themselves, if they are not made of a list.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.categories import Category
from fullgraph.rewrites.analysis import NotApplicable, Site, find_all, torch_name
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.scalars.sizes import MAKERS, SizeNumbers

_WHY = "The sizes are Python numbers already."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    match site.node:
        case cst.Call(func=cst.Attribute(value=maker, attr=cst.Name("tolist")), args=[]):
            pass
        case _:
            return _compute_in_python(site)
    if (columns := _reduce_columns(site, maker)) is not None:
        return Rewrite({site.node: columns}, _WHY)
    if not isinstance(maker, cst.Call) or site.callee_name(maker) not in MAKERS or not maker.args:
        return None
    sizes = maker.args[0].value
    seen = site.observed(sizes)
    if seen is None or not set(seen.types) <= {"torch.Size", "tuple", "list"}:
        return Refusal("what the tensor is made of is not known to be a shape")
    if not set(seen.items) <= {"int"}:
        return Refusal("what the tensor is made of is not all integers")
    match site.parent:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple() | cst.List())]):
            new = sizes
        case _:
            new = build_expression("list({sizes})", sizes=sizes)
    return Rewrite({site.node: new}, _WHY)


def _reduce_columns(site: Site, reduced: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return `[max(column) for column in zip(*shapes)]` for `torch.tensor(shapes).amax(0)`.

    None unless `reduced` is the maximum or minimum over the first of two dimensions of a tensor
    that is made of lists of integers.
    """
    match reduced:
        case cst.Subscript(
            value=cst.Call() as call,
            slice=[cst.SubscriptElement(cst.Index(cst.Integer("0")))],
        ):
            names = ("max", "min")
        case cst.Attribute(value=cst.Call() as call, attr=cst.Name("values")):
            names = ("max", "min")
        case cst.Call() as call:
            names = ("amax", "amin")
        case _:
            return None
    match call:
        case cst.Call(
            func=cst.Attribute(value=rows),
            args=[cst.Arg(keyword=None | cst.Name("dim"), value=cst.Integer("0"))],
        ) if torch_name(site, call) in names:
            lists = _rows_of(site, rows)
            name = torch_name(site, call).removeprefix("a")
        case _:
            return None
    if lists is None:
        return None
    return build_expression(f"[{name}(column) for column in zip(*{{lists}})]", lists=lists)


def _rows_of(site: Site, tensor: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the list of lists of integers that a tensor of two dimensions is made of, or None."""
    seen = site.observed(tensor)
    if seen is None or seen.dims != {2} or not seen.dtypes <= {"int32", "int64"}:
        return None
    match tensor:
        case cst.Call(args=[cst.Arg(value=lists)]) if site.callee_name(tensor) in MAKERS:
            pass
        case cst.Call(
            args=[
                cst.Arg(
                    value=cst.ListComp(elt=cst.Call(args=[cst.Arg(value=row)]) as maker) as comp
                )
            ]
        ) if torch_name(site, tensor) == "stack" and site.callee_name(maker) in MAKERS:
            plain = m.matches(comp.for_in, m.CompFor(m.Name(), ifs=[], inner_for_in=None))
            lists = (
                comp.for_in.iter
                if plain and comp.for_in.target.deep_equals(row)
                else comp.with_changes(elt=row)
            )
        case _:
            return None
    known = site.observed(lists)
    listed = known is None or set(known.types) | set(known.items) <= {"torch.Size", "tuple", "list"}
    return lists if listed else None


def _compute_in_python(site: Site) -> Rewrite | Refusal | None:
    """Return the rewrite of `t.item()`, `int(t)` or `float(t)` where `t` is made of sizes alone."""
    for node in (site.node, *find_all(site.node, m.Call())):
        match node:
            case cst.Call(func=cst.Attribute(attr=cst.Name("item")), args=[]):
                pass
            case cst.Call(func=cst.Name("int" | "float"), args=[_]):
                pass
            case _:
                continue
        numbers = SizeNumbers(site)
        try:
            new = numbers.write(node)
        except NotApplicable as why:
            return Refusal(str(why)) if numbers.made else None
        if not numbers.made:
            return None
        edits = {**numbers.edits, node: new}
        made = [one for one in edits.values() if isinstance(one, cst.CSTNode)]
        text = "".join(map(site.document.module.code_for_node, made))
        return Rewrite(
            edits,
            _WHY,
            assumes=tuple(numbers.assumes),
            imports=("math",) if "math." in text else (),
        )
    return None


RULE = Rule("FG222", "use-shape", frozenset({Category.SCALAR.value}), rewrite)
