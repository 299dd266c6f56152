"""`x.repeat_interleave(repeats)` has as many rows as the repeats add up to: data decide.

TorchDynamo breaks the graph there in its default mode. With `output_size=` the number of rows is
known beforehand, and nothing is waited for on a GPU either.

Before:

    nodes = graph.repeat_interleave(counts, dim=0)

After:

    nodes = graph.repeat_interleave(counts, dim=0, output_size=len(batch))

Where the repeats are made of a list of numbers, their sum is known to the code:

    ids = torch.repeat_interleave(torch.arange(n), torch.tensor(counts), output_size=sum(counts))

Assumes there that no number is negative, unless they are seen to be sizes: torch raises for one,
and with `output_size=` it writes beyond the memory of the result.

Otherwise it is only shown: what the repeats add up to is known to the person, and a wrong number is
an error.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site, find_definitions, operation_of
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression, integer_literal, with_keyword
from fullgraph.rewrites.transforms.scalars.signs import Sign, sign_of
from fullgraph.rewrites.transforms.scalars.sizes import SizeNumbers

_NOT_NEGATIVE = "no repeat is negative: torch would no longer refuse it"


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
    if given := _give_sum(site, call):
        return given
    rows, dim = site.observed(call), _dimension(call) or 0
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


def _give_sum(site: Site, call: cst.Call) -> Rewrite | None:
    """Return the rewrite with the sum of the list that the repeats are made of; None without one.

    One repeat may be for all rows: where there never were more, it is left alone.
    """
    made = operation_of(site, call)
    if made is None or not made.operands or ("dim" not in made.keywords and len(made.operands) > 2):
        return None
    rows, repeats = made.operands[0], made.keywords.get("repeats", made.operands[:2][-1])
    seen, repeated, dim = site.observed(repeats), site.observed(rows), _dimension(call)
    if seen is None or repeated is None or seen.dims != {1} or dim is None:
        return None
    if len(repeated.dims) > 1 or not -min(repeated.dims) <= dim < min(repeated.dims):
        return None
    if "dim" not in made.keywords and repeated.dims != {1}:  # it repeats the elements
        return None
    lengths = {length for (length,) in seen.shapes}
    if repeats is not rows and lengths in ({1}, set()):
        return None
    if lengths != {shape[dim] for shape in repeated.shapes}:
        return None
    numbers = SizeNumbers(site)
    try:
        counts = numbers.write_list(repeats)
    except NotApplicable:
        return None
    if not isinstance(counts, cst.Name) or numbers.assumes:
        return None
    total = build_expression("sum({counts})", counts=counts)
    return Rewrite(
        {**numbers.edits, call: with_keyword(call, "output_size", total)},
        "With `output_size=` the shape is known.",
        assumes=() if _holds_sizes(numbers, counts) else (_NOT_NEGATIVE,),
    )


def _holds_sizes(numbers: SizeNumbers, counts: cst.Name) -> bool:
    """Return whether a list holds no negative number, as the code that makes it shows."""
    known = find_definitions(numbers.site.document, counts)
    if known is None or counts not in known.reaching:
        return False  # it is the name of a copy
    is_only_read = numbers.is_only_read(known, counts)
    return is_only_read and sign_of(numbers.site, counts) >= Sign.NOT_NEGATIVE


def _dimension(call: cst.Call) -> int | None:
    """Return the `dim=` of a `repeat_interleave` call, 0 without; None if it is no literal."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == "dim":
            return integer_literal(arg.value)
    return 0


RULE = Rule("FG409", "give-output-size", frozenset({Category.DYNAMIC_SHAPE.value}), rewrite)
