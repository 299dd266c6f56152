"""Updates through a mask, `x[:, m] = v`, that do nothing where the mask selects nothing."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import (
    NotApplicable,
    Operation,
    Site,
    find_definitions,
    infer,
    operation_of,
    torch_name,
    walk,
    word_set,
)
from fullgraph.rewrites.source import integer_literal
from fullgraph.rewrites.transforms.branches.tested import has_same_value

_REDUCTIONS = word_set("all amax amin any argmax argmin max mean median min norm prod std sum var")
_EXTREMES = word_set("amax amin argmax argmin aminmax max median min")
_LAYOUTS = word_set("expand flatten permute ravel repeat reshape swapaxes t transpose unfold view")
"""Methods after which the selected elements may be in another dimension."""


def selects_nothing_else(
    site: Site,
    target: cst.BaseExpression,
    value: cst.BaseExpression,
    mask: cst.BaseExpression,
    assumes: dict[str, None],
) -> bool:
    """Return whether `target` is an update of what `mask` selects, such as `x[m]` or `x[:, m]`.

    `value` is the stored operand. Raises NotApplicable if another index or the value may not fit
    an empty selection: `x[m] = v` fails for a `v` of two elements. A value of unknown shape adds a
    clause to `assumes`.
    """
    if not isinstance(target, cst.Subscript):
        return False
    indices = [part.slice.value for part in target.slice if isinstance(part.slice, cst.Index)]
    others = [one for one in indices if not has_same_value(site, one, mask)]
    if len(others) == len(indices):
        return False
    for one in others:
        if not (isinstance(one, cst.Ellipsis) or _fits(site, one, mask)):
            _refuse(site, one, target)
    fits = _fits(site, value, mask) or _has_rows_alone(site, target, value, mask)
    if not fits and infer(site, value) is None:
        code = site.document.code
        assumes[f"`{code(value)}` fits `{code(target)}` also where it selects nothing"] = None
        fits = True
    if not fits or any(_needs_elements(site, one, mask) for one in walk(value)):
        _refuse(site, value, target)
    return True


def _refuse(site: Site, node: cst.BaseExpression, target: cst.BaseExpression) -> None:
    code = site.document.code
    raise NotApplicable(f"`{code(node)}` may not fit `{code(target)}` where it selects nothing")


def _fits(site: Site, node: cst.BaseExpression, mask: cst.BaseExpression) -> bool:
    """Return whether a value is a number, 0-d, or has an element for each that `mask` selects."""
    if _selected_dim(site, node, mask) is not None:
        return True
    seen = infer(site, node)
    return seen is not None and (seen.is_number or seen.dims == {0})


def _needs_elements(site: Site, node: cst.CSTNode, mask: cst.BaseExpression) -> bool:
    """Return whether a node is a reduction such as `x[m].max()`, an error for no element."""
    made = operation_of(site, node) if isinstance(node, cst.Call) else None
    return (
        made is not None
        and made.name in _EXTREMES
        and bool(made.operands)
        and _selected_dim(site, made.operands[0], mask) is not None
        and _kept_dim(site, made, mask, 6) is None
    )


def _has_rows_alone(
    site: Site, target: cst.Subscript, value: cst.BaseExpression, mask: cst.BaseExpression
) -> bool:
    """Return whether `value` has no dimension beside one that `mask` selects, or size 1 there.

    True for a row `v` in `x[m] = v`: an empty selection has rows of the same length.
    """
    whole, chosen, seen = (infer(site, one) for one in (target.value, mask, value))
    if whole is None or chosen is None or seen is None or not seen.shapes:
        return False
    if len(whole.dims) != 1 or len(chosen.dims) != 1 or len(target.slice) != 1:
        return False
    after = next(iter(whole.dims)) - next(iter(chosen.dims))
    return all(set(shape[: len(shape) - after]) <= {1} for shape in seen.shapes)


def _selected_dim(
    site: Site, node: cst.BaseExpression, mask: cst.BaseExpression, depth: int = 6
) -> int | None:
    """Return the dimension of a value that has one element for each that `mask` selects, or None.

    1 for `x[:, m]` and `x[:, m] * 2`, 0 for `x[:, m].min(0)[1]`.
    """
    if depth == 0:
        return None
    match node:
        case cst.Name():
            value = _value_of_binding(site, node)
            return _selected_dim(site, value, mask, depth - 1) if value is not None else None
        case cst.Attribute(value=value, attr=cst.Name("indices" | "values")):
            return _selected_dim(site, value, mask, depth - 1)
        case cst.Subscript(value=value):
            if (dim := _masked_dim(site, node, mask)) is not None:
                return dim
            seen, part = infer(site, value), m.SubscriptElement(m.Index(m.Integer()))
            is_tuple = isinstance(value, cst.Call) and (seen is None or not seen.is_tensor)
            whole = is_tuple and m.matches(node, m.Subscript(slice=[part]))
            return _selected_dim(site, value, mask, depth - 1) if whole else None
    made = operation_of(site, node)
    if made is not None and made.name in _REDUCTIONS:
        return _kept_dim(site, made, mask, depth)
    if made is None and isinstance(node, cst.Call) and not torch_name(site, node):
        operands = [arg.value for arg in node.args]  # of a layer or another function
        made = Operation("", tuple(operands), {}, False, node)
    if made is None or made.in_place or made.name in _LAYOUTS:
        return None
    found = {_selected_dim(site, one, mask, depth - 1) for one in made.operands} - {None}
    return found.pop() if len(found) == 1 and _joins(site, made, mask) else None


def _masked_dim(site: Site, node: cst.Subscript, mask: cst.BaseExpression) -> int | None:
    """Return the dimension of `x[:, m]` that has the selected elements, 1 here; None for others."""
    parts = [one.slice for one in node.slice]
    places = [place for place, one in enumerate(parts) if isinstance(one, cst.Index)]
    indices = [one.value for one in parts if isinstance(one, cst.Index)]
    others = [one for one in indices if not has_same_value(site, one, mask)]
    plain = all(integer_literal(one) is not None for one in others)
    if len(others) + 1 != len(indices) or not plain or places[-1] - places[0] >= len(places):
        return None
    return places[0]


def _joins(site: Site, made: Operation, mask: cst.BaseExpression) -> bool:
    """Return whether the operands of an arithmetic operation all fit the selection."""
    return not isinstance(made.node, cst.BinaryOperation | cst.Comparison) or all(
        _fits(site, one, mask) for one in made.operands
    )


def _kept_dim(site: Site, made: Operation, mask: cst.BaseExpression, depth: int) -> int | None:
    """Return `_selected_dim` of a reduction along another dimension, which is a literal."""
    tensor, *options = made.operands
    selected = _selected_dim(site, tensor, mask, depth - 1)
    along = integer_literal(made.keywords.get("dim", options[0] if options else None))
    if selected is None or along is None or along < 0 or along == selected:
        return None
    return selected - (along < selected and len(options) < 2 and "keepdim" not in made.keywords)


def _value_of_binding(site: Site, name: cst.Name) -> cst.BaseExpression | None:
    """Return the only value of a local name, or the call whose result it is a part of, or None.

    Of `_, low = torch.min(x, dim=0)` that is the call for `low`.
    """
    known = find_definitions(site.document, name)
    bindings = known.reaching.get(name, frozenset()) if known is not None else frozenset()
    if len(bindings) != 1:
        return None
    assign = site.document.statement(next(iter(bindings)))
    match assign:
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[target], value=value)]):
            is_part = isinstance(target.target, cst.Tuple) and isinstance(value, cst.Call)
            return value if is_part or isinstance(target.target, cst.Name) else None
    return None
