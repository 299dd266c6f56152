"""`torch.equal(a, b)` returns a Python bool, which breaks the graph.

Where the answer is computed with, a tensor of one bool does the same.

Before:

    y = y * torch.equal(a, b)
    same = torch.allclose(a, b, atol=1e-6)
    return y, same

After:

    y = y * (a == b).all()
    same = torch.isclose(a, b, atol=1e-6).all()
    return y, same

Unsafe where the answer is kept or returned. Assumes that shapes stay as they were seen, equal.

Refuses: the test of a branch (the rules for branches rewrite it), answers that become text, keys or
sizes, and tensors of different shapes.
"""

from __future__ import annotations

import libcst as cst
import torch

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site, torch_name, walk
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.scalars.scalar import Number
from fullgraph.rewrites.transforms.scalars.uses import Uses


def rewrite(site: Site) -> Rewrite | Refusal | None:
    call = next(
        (
            one
            for one in walk(site.node)
            if isinstance(one, cst.Call) and _is_tensor_comparison(site, one)
        ),
        None,
    )
    if call is None:
        return None
    operands = [arg.value for arg in call.args if arg.keyword is None]
    if isinstance(call.func, cst.Attribute) and site.is_tensor(call.func.value):
        operands.insert(0, call.func.value)
    seen = [site.observed(one) for one in operands[:2]]
    if len(seen) < 2 or any(one is None or not one.is_tensor for one in seen):
        return Refusal("what it compares is not known")
    shapes = {one.shapes for one in seen if one is not None}
    if len(shapes) > 1 or any(len(one) > 1 for one in shapes):
        return Refusal("the tensors are not of one shape")
    if len({dtype for one in seen if one is not None for dtype in one.dtypes}) > 1:
        return Refusal("the tensors are not of one dtype")
    uses = Uses(site)
    try:
        uses.write(call, _elementwise_comparison(site, call, operands), "torch")
        uses.propagate(call, Number(bool, torch.bool))
    except NotApplicable as why:
        return Refusal(str(why))
    return Rewrite(
        uses.replacements(),
        "The comparison of all elements stays a tensor, inside the graph.",
        assumes=tuple(uses.assumes),
        imports=tuple(dict.fromkeys(uses.imports)),
        numbers=uses.numbers,
    )


def _is_tensor_comparison(site: Site, call: cst.Call) -> bool:
    return torch_name(site, call) in ("equal", "allclose")


def _elementwise_comparison(
    site: Site, call: cst.Call, operands: list[cst.BaseExpression]
) -> cst.BaseExpression:
    """Return a comparison as a 0-d tensor: `(a == b).all()` for `torch.equal(a, b)`.

    For `allclose` it is `isclose(…).all()`. `operands` are the two tensors that `call` compares.
    """
    if torch_name(site, call) == "equal":
        return build_expression("({a} == {b}).all()", a=operands[0], b=operands[1])
    assert isinstance(call.func, cst.Attribute)
    close = call.with_changes(func=call.func.with_changes(attr=cst.Name("isclose")))
    return build_expression("{close}.all()", close=close)


RULE = Rule("FG202", "compare-in-graph", frozenset({Category.COMPARISON.value}), rewrite)
