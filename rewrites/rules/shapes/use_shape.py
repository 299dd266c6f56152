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

Where a list may be needed, it becomes `list(x.size()[2:])`. A tensor that is needed itself stays,
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
from fullgraph.rewrites.analysis import NotApplicable, Site
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.scalars.sizes import MAKERS, SizeNumbers

_WHY = "The sizes are Python numbers already."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    match site.node:
        case cst.Call(func=cst.Attribute(value=cst.Call() as maker, attr=cst.Name("tolist"))):
            pass
        case _:
            return _compute_in_python(site)
    if site.callee_name(maker) not in MAKERS or not maker.args:
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


def _compute_in_python(site: Site) -> Rewrite | Refusal | None:
    """Return the rewrite of `t.item()`, `int(t)` or `float(t)` where `t` is made of sizes alone."""
    for node in (site.node, *m.findall(site.node, m.Call())):
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
            Applicability.UNSAFE if numbers.assumes else Applicability.SAFE,
            tuple(numbers.assumes),
            imports=("math",) if "math." in text else (),
        )
    return None


RULE = Rule("FG222", "use-shape", frozenset({Category.SCALAR.value}), rewrite)
