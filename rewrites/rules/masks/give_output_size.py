"""`x.repeat_interleave(repeats)` has as many rows as the repeats add up to: data decide.

TorchDynamo breaks the graph there in its default mode. With `output_size=` the number of rows is
known beforehand, and nothing is waited for on a GPU either.

Before:

    nodes = graph.repeat_interleave(counts, dim=0)

After:

    nodes = graph.repeat_interleave(counts, dim=0, output_size=len(batch))

Only shown: what the repeats add up to is known to the person, and a wrong number is an error.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression, with_keyword


def rewrite(site: Site) -> Rewrite | Refusal | None:
    call = site.node
    if not isinstance(call, cst.Call):
        return None
    name = site.callee_name(call)
    if name in ("torch.unique", "torch.Tensor.unique", "torch.unique_consecutive"):
        return Refusal("how many distinct elements there are depends on the data")
    if name not in ("torch.repeat_interleave", "torch.Tensor.repeat_interleave"):
        return None
    if any(arg.keyword is not None and arg.keyword.value == "output_size" for arg in call.args):
        return None
    rows, dim = site.observed(call), _repeated_dimension(call)
    sizes = {shape[dim] for shape in rows.shapes} if rows is not None and rows.is_tensor else set()
    if len(sizes) != 1:
        return Refusal("how many rows there are depends on the data")
    size = build_expression(str(sizes.pop()))
    return Rewrite(
        {call: with_keyword(call, "output_size", size)},
        "With `output_size=` the shape is known; give what the repeats always add up to.",
        Applicability.DISPLAY,
        ("the repeats always add up to this number",),
    )


def _repeated_dimension(call: cst.Call) -> int:
    """Return the `dim=` of a `repeat_interleave` call.

    The result is 0 if `dim=` is missing or not an integer literal.
    """
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == "dim":
            return arg.value.evaluated_value if isinstance(arg.value, cst.Integer) else 0
    return 0


RULE = Rule("FG409", "give-output-size", frozenset({Category.DYNAMIC_SHAPE.value}), rewrite)
