"""What becomes of selected elements in the end, where their number no longer shows."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from fullgraph.rewrites.site import NotApplicable, Site
from fullgraph.rewrites.transforms.masks.index_add import Added
from fullgraph.rewrites.transforms.masks.losses import Loss
from fullgraph.rewrites.transforms.masks.operators import Operation
from fullgraph.rewrites.transforms.masks.reads import Read


def taken(
    site: Site, node: cst.CSTNode, selected: cst.BaseExpression | None = None
) -> NotApplicable:
    """That `node` takes the selected elements by themselves."""
    code = site.document.code(selected or node).partition("\n")[0]
    match node:
        case cst.Return():
            what = f"`{code}` is returned"
        case cst.BaseElement() | cst.Index() | cst.IfExp() | cst.BooleanOperation():
            what = f"`{code}` is used as it is"
        case _:
            code = site.document.code(node).partition("\n")[0]
            what = f"`{code}` takes all that is selected"
    return NotApplicable(f"{what}, and how many elements that is depends on the data")


@dataclass(frozen=True, eq=False)
class Reduced:
    """A reduction over all dimensions of the mask."""

    operation: Operation


@dataclass(frozen=True, eq=False)
class Counted:
    """`x[m].numel()`, `len(x[m])`, `x[m].shape[0]`."""

    node: cst.BaseExpression
    least: cst.BaseExpression | None = None
    """The number that it is at least: n in `max(len(x[m]), n)`."""


@dataclass(frozen=True, eq=False)
class Unpacked:
    """`a, b = …`, where the mask selects in a later dimension."""

    names: tuple[Bound, ...]


@dataclass(frozen=True, eq=False)
class Stored:
    """`y[m] = …` or `y[m] += …`."""

    statement: cst.Assign | cst.AugAssign
    target: Read


@dataclass(frozen=True, eq=False)
class Bound:
    """`name = …` or `name += …`."""

    name: cst.Name
    augmented: bool = False


@dataclass(frozen=True, eq=False)
class Harmless:
    """`.dtype` and the like."""


End = Reduced | Counted | Stored | Bound | Unpacked | Loss | Added | Harmless


def same_end(one: End, other: End) -> bool:
    """Whether both are the same call, which takes several selections."""
    if isinstance(one, Loss | Added) and isinstance(other, Loss | Added):
        return one.call is other.call
    return False
