"""Calls that accumulate by index: `index_add`, `scatter_add`, `bincount`."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.source import integer_literal
from fullgraph.rewrites.transforms.masks.operators import parse_operation

_NAMES = frozenset({"index_add", "scatter_add"})


@dataclass(frozen=True, eq=False)
class IndexAdd:
    """Call such as `base.index_add(0, index, source)`, in which adding zero changes nothing."""

    call: cst.Call
    base: cst.BaseExpression
    """The tensor that is added to; for `bincount` its `minlength`."""
    index: cst.BaseExpression
    source: cst.BaseExpression | None
    """What is added; None if it is 1 for each index, as in `bincount`."""
    rows: bool = False
    """Whether `index` has one element for each row of `source`."""


def find_accumulation(site: Site, call: cst.Call) -> IndexAdd | None:
    """Return `index_add`, `scatter_add` or `bincount` as an IndexAdd; None for other calls.

    None also if the call adds along another dimension than the first.
    """
    made = parse_operation(site, call)
    if made is None or any(
        arg.keyword is not None and arg.keyword.value == "out" for arg in call.args
    ):
        return None
    if made.name == "bincount":
        length = made.argument("minlength", 1)
        if length is None or made.argument("weights", 0) is not None:
            return None
        return IndexAdd(call, length, made.tensor, None)
    options = [made.argument(name, i) for i, name in enumerate(("dim", "index", "source"))]
    dim, index, source = options
    source = source if source is not None else made.argument("src", 2)
    if made.name not in _NAMES or len(made.options) != 3 or index is None or source is None:
        return None
    if integer_literal(dim) != 0:
        return None
    return IndexAdd(call, made.tensor, index, source, made.name == "index_add")
