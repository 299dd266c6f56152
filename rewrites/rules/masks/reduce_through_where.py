"""`x[m].mean()` reads as many elements as the mask selects: their number depends on the data.

TorchDynamo cannot give `x[m]` a shape in its default mode and breaks the graph there. Where all
that is selected ends in a reduction, the reduction can go over the whole tensor instead.

Before:

    diff = (pred - target)[valid]
    return diff.abs().mean()

After:

    diff = torch.where(valid, pred - target, 0)
    return diff.abs().sum() / valid.sum()

Likewise what is added up by index:

    row, col = edges[:, edges[0] != edges[1]]
    out = out.index_add(0, col, x[row])

becomes

    mask = edges[0] != edges[1]
    row, col = torch.where(mask, edges, 0)
    out = out.index_add(0, col, torch.where(mask[..., None], x[row], 0))

A sum of what is not NaN, `x[~x.isnan()].sum()`, becomes `x.nansum()`. For a mean `x.nanmean()` is
shorter, and unsafe: its gradient is NaN if all of `x` is.

What is selected is followed through assignments, elementwise functions (those of the same file too)
and tables that it is an index of. Gradients are the same, also where NaN or inf stands outside the
mask: it is filled up before a function can meet it. An empty mask gives NaN as before. Sums are
added up in another order, so the last digits may differ. A mask that is not a name, and is needed
twice, gets one. After `if mask is not None: loss = loss[mask]` the rest of the function goes into
the `if` too, for the masked case. How many are selected becomes a sum: a test of it, `if y.numel()
== 0`, is a branch then, for the rules that rewrite branches. Where a layer multiplies the selected
rows, eager code keeps its lines, under the `else` of `if torch.compiler.is_compiling()`.

Unsafe where an empty selection was an error (`max`, `min`), where a sum could overflow (float16),
where `bincount` could find more than `minlength` numbers, where shapes are not known, and for a
mean of what may be integers, which the original refuses.

Refuses: selected elements that are returned, stored, concatenated or given to a function that is
not elementwise, because their number then shows.
"""

from __future__ import annotations

from dataclasses import replace

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.transforms.masks.flow import find_flow
from fullgraph.rewrites.transforms.masks.losses import Loss
from fullgraph.rewrites.transforms.masks.nan_reductions import nan_reduction_rewrite
from fullgraph.rewrites.transforms.masks.rewriting import find_sinks, rewrite_flow
from fullgraph.rewrites.transforms.masks.sinks import StoreSink


def rewrite(site: Site) -> Rewrite | Refusal | None:
    found = find_flow(site)
    if found is None:
        return None
    if isinstance(found, NotApplicable):
        return Refusal(str(found))
    if any(isinstance(end, Loss | StoreSink) for end in find_sinks(found)):
        return None
    short = nan_reduction_rewrite(found)
    if short is not None and short.applicability is Applicability.SAFE:
        return short
    made = rewrite_flow(found, "A reduction over the whole tensor has a fixed shape.")
    return replace(made, shorter=short) if isinstance(made, Rewrite) else short or made


RULE = Rule("FG401", "reduce-through-where", frozenset({Category.MASK.value}), rewrite)
