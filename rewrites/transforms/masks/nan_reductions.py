"""Write sums and means over `~isnan` elements as `nansum` and `nanmean`."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import (
    NotApplicable,
    find_all,
    operation_of,
    parameter_of,
    removable_line,
)
from fullgraph.rewrites.rule import Rewrite
from fullgraph.rewrites.source import Replacement, build_expression
from fullgraph.rewrites.transforms.masks.flow import Flow
from fullgraph.rewrites.transforms.masks.mask_value import find_mask_value
from fullgraph.rewrites.transforms.masks.rewriting import require_unchanged_mask
from fullgraph.rewrites.transforms.masks.sinks import BindSink, ReduceSink

_NAN = {"mean": "nanmean", "sum": "nansum"}


def nan_reduction_rewrite(flow: Flow) -> Rewrite | None:
    """Return `x.nanmean()` for `x[~x.isnan()].mean()`, and `nansum` for `sum`; else None.

    The selected elements may have a name in between, whose line goes. A mean is unsafe: of nothing
    but NaN its gradient is NaN, where the original has zero; so is what may get complex numbers,
    which `nansum` refuses.
    """
    site, first = flow.site, flow.first
    mask = find_mask_value(flow)
    if mask is None or len(flow.reads) != 1 or flow.mixed or not (first.known and first.whole):
        return None
    if not _is_not_nan(flow, mask.value):
        return None
    lines = [mask.line] if mask.line is not None else []
    edits: dict[cst.CSTNode, Replacement] = {}
    assumes: dict[str, None] = {}
    for root, sinks in flow.trees.items():
        for sink in sinks:
            match sink:
                case BindSink(augmented=False) if root is first.node:
                    line = removable_line(flow.site.document, root)
                    if line is None:
                        return None
                    lines.append(line)
                case ReduceSink(operation=made) if made.name in _NAN and len(made.call.args) == (
                    not made.method
                ):
                    if made.tensor is not root or (
                        root is not first.node and root not in flow.names
                    ):
                        return None
                    if made.name == "mean":
                        code = site.document.code(first.base)
                        assumes[f"`{code}` has an element that is not NaN"] = None
                    if parameter_of(site.document, first.base) is not None:
                        assumes[f"`{site.document.code(first.base)}` is not complex"] = None
                    edits[made.call] = _reduction(flow, made.call, _NAN[made.name], made.method)
                case _:
                    return None
    rebound = isinstance(first.base, cst.Name) and any(
        isinstance(name, cst.Name) and name.value == first.base.value for name in flow.bound
    )
    try:
        if flow.definitions is None or not edits:
            return None
        if not rebound:
            places = (first.node, *edits)
            require_unchanged_mask(site.document, flow.definitions, places, first.base)
    except NotApplicable:
        return None
    if any(find_all(line, m.Comment()) for line in lines):
        return None
    edits |= dict.fromkeys(lines, cst.RemoveFromParent())
    why = "It leaves out NaN at a fixed shape."
    return Rewrite(edits, why, assumes=tuple(assumes), imports=("torch",))


def _is_not_nan(flow: Flow, mask: cst.BaseExpression) -> bool:
    """Return whether a mask is `~x.isnan()` of the tensor `x` that is read."""
    outer = operation_of(flow.site, mask)
    if outer is None or outer.name not in ("bitwise_not", "logical_not") or outer.in_place:
        return False
    inner = operation_of(flow.site, outer.operands[0])
    if inner is None or inner.name != "isnan":
        return False
    return inner.operands[0].with_changes(lpar=(), rpar=()).deep_equals(flow.first.base)


def _reduction(flow: Flow, call: cst.Call, name: str, method: bool) -> cst.BaseExpression:
    """Return the call of the reduction `name` of the whole tensor."""
    base = flow.first.base
    if method:
        return build_expression(f"{{x}}.{name}()", x=base)
    spelled = flow.site.document.imported_name(f"torch.{name}") or f"torch.{name}"
    return build_expression(f"{spelled}({{x}})", x=base)
