"""`torch.tensor(x.size()).tolist()` makes a tensor of sizes and takes its numbers out again.

The numbers were there before: `x.shape` is a tuple of them.

Before:

    h, w = torch.tensor(x.size()[2:]).tolist()

After:

    h, w = x.size()[2:]

Where a list may be needed, it becomes `list(x.size()[2:])`.

Refuses: `torch.tensor(…)` of anything that was not seen to be a shape or a tuple or list of
integers.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.compiler.categories import Category
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression

_MAKERS = ("torch.tensor", "torch.as_tensor", "torch.LongTensor", "torch.IntTensor")


def rewrite(site: Site) -> Rewrite | Refusal | None:
    match site.node:
        case cst.Call(func=cst.Attribute(value=cst.Call() as maker, attr=cst.Name("tolist"))):
            pass
        case _:
            return None
    if site.callee_name(maker) not in _MAKERS or not maker.args:
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
    return Rewrite({site.node: new}, "The sizes are Python numbers already.")


RULE = Rule("FG222", "use-shape", frozenset({Category.SCALAR.value}), rewrite)
