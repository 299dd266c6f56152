"""Kinds of sinks: uses of selected elements after which their number is no longer visible."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable, Site
from fullgraph.rewrites.transforms.masks.index_add import IndexAdd
from fullgraph.rewrites.transforms.masks.losses import Loss
from fullgraph.rewrites.transforms.masks.operators import Operation
from fullgraph.rewrites.transforms.masks.reads import Read


def refuse_elements(
    site: Site, node: cst.CSTNode, selected: cst.BaseExpression | None = None
) -> NotApplicable:
    """Return the refusal for a use of the selected elements that cannot work at full shape.

    `node` is the code that uses them. `selected` is the expression of selected elements, if that is
    clearer in a message than `node`.
    """
    code = site.document.code(selected or node).partition("\n")[0]
    match node:
        case cst.Return():
            what = f"`{code}` is returned"
        case cst.BaseElement() | cst.Index() | cst.IfExp() | cst.BooleanOperation():
            what = f"`{code}` is used as it is"
        case cst.FormattedStringExpression():
            what = f"a text shows `{site.document.code(node.expression)}`"
        case _:
            code = site.document.code(node).partition("\n")[0]
            what = f"`{code}` needs the selected elements themselves"
    return NotApplicable(f"{what}, and how many there are depends on the data")


@dataclass(frozen=True, eq=False)
class ReduceSink:
    """Sink: a reduction over all dimensions of the mask."""

    operation: Operation


@dataclass(frozen=True, eq=False)
class CountSink:
    """Sink: the number of selected elements, `x[m].numel()`, `len(x[m])` or `x[m].shape[0]`."""

    node: cst.BaseExpression
    least: cst.BaseExpression | None = None
    """A lower bound on the number: n in `max(len(x[m]), n)`."""


@dataclass(frozen=True, eq=False)
class UnpackSink:
    """Sink: an assignment `a, b = …` that unpacks a dimension before those of the mask."""

    names: tuple[BindSink, ...]


@dataclass(frozen=True, eq=False)
class StoreSink:
    """Sink: an assignment `y[m] = …` or `y[m] += …`."""

    statement: cst.Assign | cst.AugAssign
    target: Read


@dataclass(frozen=True, eq=False)
class BindSink:
    """Sink: an assignment `name = …` or `name += …`."""

    name: cst.Name
    augmented: bool = False


@dataclass(frozen=True, eq=False)
class MetadataSink:
    """Sink: a use of `.dtype` or other metadata, which needs no edit."""


Sink = ReduceSink | CountSink | StoreSink | BindSink | UnpackSink | Loss | IndexAdd | MetadataSink


def is_same_sink(one: Sink, other: Sink) -> bool:
    """Return whether two sinks are the same loss or accumulation call."""
    if isinstance(one, Loss | IndexAdd) and isinstance(other, Loss | IndexAdd):
        return one.call is other.call
    return False
