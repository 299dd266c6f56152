"""Write a loss over `labels != k` with `ignore_index=k`."""

from __future__ import annotations

import libcst as cst

from fullgraph.rewrites.rule import Applicability, Rewrite
from fullgraph.rewrites.source import Replacement, with_keyword
from fullgraph.rewrites.transforms.masks.flow import Flow
from fullgraph.rewrites.transforms.masks.losses import Loss
from fullgraph.rewrites.transforms.masks.mask_value import find_mask_value
from fullgraph.rewrites.transforms.masks.operators import TARGET_LOSSES
from fullgraph.rewrites.transforms.masks.reads import is_repeatable

_DEFAULT = "-100"
"""Default of `ignore_index`."""


def ignore_index_rewrite(flow: Flow) -> Rewrite | None:
    """Return `F.cross_entropy(x, y, ignore_index=k)` for one of `x[m]` and `y[m]`, `m = y != k`.

    None for other flows. The edit is unsafe: NaN in an ignored row of `x` would reach the gradient.
    """
    site = flow.site
    losses = [sink for found in flow.trees.values() for sink in found if isinstance(sink, Loss)]
    loss = losses[0] if losses and len(losses) == sum(map(len, flow.trees.values())) else None
    if loss is None or loss.name not in TARGET_LOSSES or loss.reduction not in ("mean", "sum"):
        return None
    if any(one.call is not loss.call for one in losses):
        return None
    reads = [flow.reads.get(part) for part in (loss.input, loss.target)]
    if None in reads or len(flow.reads) != 2 or flow.mixed or flow.first.dims != 1:
        return None
    logits, labels = (read for read in reads if read is not None)
    mask = find_mask_value(flow)
    ignored = _ignored_label(flow, mask.value, labels.base) if mask is not None else None
    if mask is None or ignored is None or not is_repeatable(site, labels.base):
        return None
    code = site.document.code
    given = loss.options.get("ignore_index")
    old = _DEFAULT if given is None else code(given)
    edits: dict[cst.CSTNode, Replacement] = {logits.node: logits.base, labels.node: labels.base}
    if old != code(ignored):
        if loss.module:
            return None
        args = [
            arg.with_changes(value=edits[arg.value]) if arg.value in edits else arg
            for arg in loss.call.args
        ]
        call = with_keyword(loss.call.with_changes(args=args), "ignore_index", ignored)
        edits = {loss.call: call}
    if mask.line is not None:
        edits[mask.line] = cst.RemoveFromParent()
    assumes = [f"`{code(logits.base)}` is finite where `{code(labels.base)}` is `{code(ignored)}`"]
    if old != code(ignored):
        assumes.append(f"no label is {old}")
    if not loss.known:
        assumes.append(f"`{code(loss.call.func)}` has the default options")
    why = f"`ignore_index` leaves out the rows whose label is `{code(ignored)}`, at a fixed shape."
    return Rewrite(edits, why, Applicability.UNSAFE, tuple(assumes))


def _ignored_label(
    flow: Flow, mask: cst.BaseExpression, labels: cst.BaseExpression
) -> cst.BaseExpression | None:
    """Return the int `k` if `mask` is `labels != k`; else None."""
    match mask:
        case cst.Comparison(
            left=left, comparisons=[cst.ComparisonTarget(cst.NotEqual(), ignored)]
        ) if left.deep_equals(labels):
            seen = flow.site.observed(ignored)
            if isinstance(ignored, cst.Integer) or (seen is not None and seen.types == ("int",)):
                return ignored
    return None
