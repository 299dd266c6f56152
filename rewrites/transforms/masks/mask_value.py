"""The expression that a flow's mask stands for."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable, assigned_value, removable_line, walk
from fullgraph.rewrites.transforms.masks.flow import Flow
from fullgraph.rewrites.transforms.masks.rewriting import require_unchanged_mask


@dataclass(frozen=True)
class MaskValue:
    """Expression of a mask, and the line that gives it a name if only the masked reads use it."""

    value: cst.BaseExpression
    line: cst.SimpleStatementLine | None = None


def find_mask_value(flow: Flow) -> MaskValue | None:
    """Return the expression of a flow's mask, through the one assignment to its name.

    None if the name has several values, or the expression may have another value by now.
    """
    site, known, mask = flow.site, flow.definitions, flow.first.mask
    if not isinstance(mask, cst.Name):
        return MaskValue(mask)
    bindings = known.reaching.get(mask, frozenset()) if known is not None else frozenset()
    value = assigned_value(site.document, next(iter(bindings))) if len(bindings) == 1 else None
    if known is None or value is None:
        return None
    try:
        require_unchanged_mask(site.document, known, (value, *flow.reads), value)
    except NotApplicable:
        return None
    inside = {node for read in flow.reads for node in walk(read)}
    needed = [use for use in known.uses(next(iter(bindings))) if use not in inside]
    return MaskValue(value, None if needed else removable_line(site.document, value))
