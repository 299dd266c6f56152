"""Masks of the positions in slices whose bounds are tensors, such as `x[i, n:]`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import takewhile

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import NotApplicable
from fullgraph.rewrites.source import build_expression, build_statement
from fullgraph.rewrites.transforms.scalars.scalar import SIZE
from fullgraph.rewrites.transforms.scalars.signs import sign_of
from fullgraph.rewrites.transforms.scalars.use_edits import UseEdits

NOT_NEGATIVE = "the bounds of the slice are not negative, for then they would count from the end"
_NAMES = {1: ("positions",), 2: ("rows", "columns")}
"""Names for the positions of the dimensions that are cut, by their number."""
_FULL = cst.Slice(lower=None, upper=None)


@dataclass(frozen=True)
class Cut:
    """Slice of a subscript with a bound that is a tensor."""

    piece: cst.Slice
    positions: cst.BaseExpression
    """All positions of its dimension: `torch.arange(x.shape[1], device=x.device)`."""
    behind: int
    """Number of the result's dimensions after its own."""

    @property
    def is_prefix(self) -> bool:
        """Whether it begins at the first position: `:n`."""
        return self.piece.lower is None or m.matches(self.piece.lower, m.Integer("0"))

    def mask(self, positions: cst.BaseExpression | None = None) -> cst.BaseExpression:
        """Return the mask of the positions in it, shaped to broadcast over the result.

        `positions` names the positions of the dimension.
        """
        where, tests = positions or self.positions, []
        if self.piece.lower is not None and not self.is_prefix:
            tests.append(build_expression("{p} >= {n}", p=where, n=self.piece.lower))
        if self.piece.upper is not None:
            tests.append(build_expression("{p} < {n}", p=where, n=self.piece.upper))
        mask = join_masks(tests)
        if not self.behind:
            return mask
        return build_expression("({mask})[:" + ", None" * self.behind + "]", mask=mask)


def cuts_of(
    uses: UseEdits, subscript: cst.Subscript, is_tensor: Callable[[cst.BaseExpression], bool]
) -> list[Cut]:
    """Return the slices of a subscript that have a tensor bound, in order.

    `is_tensor` says of a bound whether it is, or becomes, a 0-d tensor. Raises NotApplicable.
    """
    seen = uses.observed(subscript.value)
    elements = [element.slice for element in subscript.slice]
    dots = [i for i, one in enumerate(elements) if _is_ellipsis(one)]
    if seen is None or len(seen.dims) != 1 or len(dots) > 1:
        raise NotApplicable("the number of its dimensions is not known")
    for one in elements:
        if isinstance(one, cst.Index) and not _is_ellipsis(one) and uses.kind(one.value) is None:
            raise NotApplicable("it selects together with other tensors")
    count = next(iter(seen.dims))
    found: list[Cut] = []
    for piece in elements:
        if not isinstance(piece, cst.Slice):
            continue
        bounds = [bound for bound in (piece.lower, piece.upper) if bound is not None]
        if not any(map(is_tensor, bounds)):
            continue
        if piece.step is not None or not all(is_tensor(b) or uses.kind(b) is int for b in bounds):
            raise NotApplicable(SIZE)
        axis = axis_of(subscript, piece)
        behind = -axis - 1 if axis < 0 else count - axis - 1
        numbers = [one for one in elements[elements.index(piece) :] if isinstance(one, cst.Index)]
        behind -= sum(not _is_ellipsis(one) for one in numbers)
        positions = build_expression(
            f"torch.arange({{x}}.shape[{axis}], device={{x}}.device)", x=subscript.value
        )
        found.append(Cut(piece, positions, behind))
        if not all(isinstance(bound, cst.Integer) or sign_of(uses.site, bound) for bound in bounds):
            uses.assume(NOT_NEGATIVE)
    if not found:
        raise NotApplicable(SIZE)
    return found


def axis_of(subscript: cst.Subscript, piece: cst.Slice) -> int:
    """Return the dimension that a slice of `x[…]` cuts; it is negative after an ellipsis."""
    elements = [element.slice for element in subscript.slice]
    index = elements.index(piece)
    return index - len(elements) if any(map(_is_ellipsis, elements[:index])) else index


def mask_of(uses: UseEdits, subscript: cst.Subscript, cuts: Sequence[Cut]) -> cst.BaseExpression:
    """Return the mask of what is in all slices; if one has two bounds, its name where possible."""
    document, line = uses.document, uses.document.statement(subscript)
    around = takewhile(lambda one: one is not line, document.ancestors(subscript))
    is_free = not any(isinstance(one, cst.BaseComp | cst.Lambda) for one in around)
    lines = uses.lines_before.setdefault(line, {subscript: []})
    is_taken = subscript not in lines  # the names are those of another slice
    if all(cut.is_prefix for cut in cuts) or len(cuts) not in _NAMES or not is_free or is_taken:
        return join_masks([cut.mask() for cut in cuts])
    stems = (*_NAMES[len(cuts)], "inside")
    *names, inside = [document.unused_local(subscript, stem) for stem in stems]
    masks = [cut.mask(cst.Name(name)) for cut, name in zip(cuts, names, strict=True)]
    values = [*(cut.positions for cut in cuts), join_masks(masks)]
    lines[subscript] = [
        build_statement(f"{name} = {{value}}", value=value)
        for name, value in zip([*names, inside], values, strict=True)
    ]
    return cst.Name(inside)


def join_masks(masks: Sequence[cst.BaseExpression]) -> cst.BaseExpression:
    """Return the mask where all of these hold."""
    first, *others = masks
    for other in others:
        first = build_expression("({a}) & ({b})", a=first, b=other)
    return first


def without_bounds(
    subscript: cst.Subscript, pieces: Collection[cst.BaseSlice]
) -> cst.BaseExpression:
    """Return `x[i]` for `x[i, n:]`, and `x` for `x[n:]`: a view of all positions in `pieces`."""
    whole = [_FULL if one.slice in pieces else one.slice for one in subscript.slice]
    while whole and (_is_ellipsis(whole[-1]) or _is_full(whole[-1])):
        whole.pop()
    if all(_is_ellipsis(one) or _is_full(one) for one in whole):
        return subscript.value
    return subscript.with_changes(slice=[cst.SubscriptElement(one) for one in whole])


def dimensions_before(subscript: cst.Subscript, node: cst.CSTNode) -> int:
    """Return the number of result dimensions before the one that `node` indexes.

    Returns -1 if `node` is the last index and comes after an ellipsis. Raises NotApplicable if it
    comes after an ellipsis and is not the last index.
    """
    count = 0
    for element in subscript.slice:
        if element.slice is node:
            return count
        if not isinstance(element.slice, cst.Index):
            count += 1
        elif element.slice.value is node:
            return count
        elif m.matches(element.slice.value, m.Name("None")):
            count += 1
        elif m.matches(element.slice.value, m.Ellipsis()):
            if element is not subscript.slice[-2]:
                raise NotApplicable("it stands behind an ellipsis")
            return -1
    return count


def _is_full(node: cst.BaseSlice) -> bool:
    return isinstance(node, cst.Slice) and node.lower is None and node.upper is None


def _is_ellipsis(node: cst.BaseSlice) -> bool:
    return isinstance(node, cst.Index) and isinstance(node.value, cst.Ellipsis)
