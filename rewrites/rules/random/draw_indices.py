"""Indices that `random` or NumPy draws come from an operator, from the same stream.

TorchDynamo breaks at `random.sample`, `np.random.permutation` and `np.random.choice`. An operator
(`torch.library.custom_op`) draws when its turn comes, as eager code does.

Before:

    for row in range(len(x)):
        masked = random.sample(range(n), k)
        mask[row, masked] = True

After:

    for row in range(len(x)):
        masked = _draw_masked(n, k)
        mask[row, masked] = True

with

    @torch.library.custom_op("model::draw_masked", mutates_args=())
    def _draw_masked(n: int, k: int) -> torch.Tensor:
        return torch.tensor(random.sample(range(n), k), dtype=torch.int64)


    _draw_masked.register_fake(lambda n, k: torch.empty((k,), dtype=torch.int64))
    if hasattr(_draw_masked, "register_effect"):  # torch 2.10
        _draw_masked.register_effect(torch.library.EffectType.ORDERED)

`torch.from_numpy(np.random.permutation(n))` becomes `_draw_permutation(n)`.

Refuses: indices that are used for anything but indexing tensors, or that become no tensor;
populations that are no range, and probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site, find_definitions, walk
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import Replacement, build_expression, replace_nodes
from fullgraph.rewrites.transforms.random import (
    add_definitions,
    define_draw_operator,
    draw_of_indices,
)

_CONVERTS = ("torch.from_numpy", "torch.tensor", "torch.as_tensor", "torch.LongTensor")


def rewrite(site: Site) -> Rewrite | Refusal | None:
    found = (draw for one in walk(site.node) if (draw := draw_of_indices(site, one)))
    if (draw := next(found, None)) is None:
        return None
    call = draw.call
    try:
        tensor, definitions = define_draw_operator(site, draw, draw.dtype)
        edits: dict[cst.CSTNode, Replacement] = {call: tensor}
        for conversion, converted in _conversions(site, call):
            inside = call in tuple(walk(converted))
            edits[conversion] = _convert(
                conversion, replace_nodes(converted, {call: tensor}) if inside else converted
            )
            if inside:
                del edits[call]
        edits = add_definitions(site.document, edits, definitions)
    except NotApplicable as escape:
        return Refusal(str(escape))
    return Rewrite(edits, "An operator draws the same indices in its turn, and the graph goes on.")


def _conversions(
    site: Site, node: cst.BaseExpression
) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
    """Yield the calls that make tensors of drawn indices, each with its argument.

    Raises NotApplicable if the indices are used for anything but indexing tensors.
    """
    document, parent = site.document, site.document.parent(node)
    match parent:
        case cst.Arg(keyword=None, star=""):
            call = document.parent(parent)
            name = site.callee_name(call)
            if name in _CONVERTS and isinstance(call, cst.Call):
                yield call, node
                return
            if name == "len":
                return
        case cst.Index():
            element = document.parent(parent)
            table = document.parent(element)
            if isinstance(table, cst.Subscript) and site.is_tensor(table.value):
                return
        case cst.Subscript(value=value, slice=[cst.SubscriptElement(slice=cst.Slice(step=None))]):
            if value is node:
                yield from _conversions(site, parent)
                return
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
            known = find_definitions(document, node)
            for use in known.uses(name) if known is not None else ():
                if known is None or known.reaching[use] != frozenset({name}):
                    raise NotApplicable(f"`{use.value}` does not always hold these indices")
                yield from _conversions(site, use)
            return
    raise NotApplicable("the indices are used for more than indexing tensors")


def _convert(conversion: cst.Call, indices: cst.BaseExpression) -> cst.BaseExpression:
    """Return a tensor of indices with the dtype and the device of a conversion."""
    options = [one for one in conversion.args if one.keyword is not None]
    if any(one.keyword is None or one.keyword.value not in ("dtype", "device") for one in options):
        raise NotApplicable("the indices become more than a tensor")
    if not options:
        return indices
    moved = build_expression("{indices}.to()", indices=indices)
    args = [*options[:-1], options[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)]
    return cst.ensure_type(moved, cst.Call).with_changes(args=args)


RULE = Rule(
    "FG703",
    "draw-indices",
    frozenset({Category.RANDOM.value, Category.NUMPY.value, Category.SKIPPED.value}),
    rewrite,
)
