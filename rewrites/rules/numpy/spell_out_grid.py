"""`np.mgrid[…]` and `np.ogrid[…]` are not traced; `np.indices` and `np.meshgrid` are.

Before:

    ys, xs = np.mgrid[0:h, 0:w]
    ys, xs = np.ogrid[1:h, 0:w:2]

After:

    ys, xs = np.indices((h, w))
    ys, xs = np.meshgrid(np.arange(1, h), np.arange(0, w, 2), indexing="ij", sparse=True)

The arrays are the same, element by element. Assumes nothing where the bounds were seen to be whole
numbers; where nothing was seen, that they are.

Refuses: a complex step (`0:1:5j`, which counts points), and bounds that are not whole numbers.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site, walk
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression

_GRIDS = ("numpy.mgrid", "numpy.ogrid")


def rewrite(site: Site) -> Rewrite | Refusal | None:
    found = next(
        (
            one
            for one in walk(site.node)
            if isinstance(one, cst.Subscript) and site.document.qualified_name(one.value) in _GRIDS
        ),
        None,
    )
    if found is None:
        return None
    slices = [element.slice for element in found.slice]
    ranges = [one for one in slices if isinstance(one, cst.Slice) and one.upper is not None]
    if len(ranges) < len(slices):
        return Refusal("it is not a grid of ranges")
    parts = [part for one in ranges for part in (one.lower, one.upper, one.step) if part]
    known = [_is_int(site, part) for part in parts]
    if False in known:
        return Refusal("a bound is no whole number")
    sparse = site.document.qualified_name(found.value).endswith("ogrid")
    np = site.document.code(found.value).rpartition(".")[0]
    new = _grid_call(np, ranges, sparse, _is_unpacked(site, found))
    return Rewrite(
        {found: new},
        "The same grid, made by a function that is traced.",
        assumes=("the bounds are whole numbers",) if None in known else (),
    )


def _grid_call(
    np: str, ranges: list[cst.Slice], sparse: bool, separated: bool
) -> cst.BaseExpression:
    """Return a call that Dynamo traces in place of `np.mgrid[…]` or `np.ogrid[…]`.

    `np` is the name of NumPy in the file. `ranges` are the slices between the brackets. `sparse` is
    True for `ogrid`. `separated` is True if the result is unpacked at once: `x, y = np.mgrid[…]`.
    """
    names = {f"n{i}": one.upper for i, one in enumerate(ranges) if one.upper is not None}
    if len(ranges) == 1:
        return _range_call(np, ranges[0])
    option = ", sparse=True" if sparse else ""
    if all(one.step is None and _is_zero(one.lower) for one in ranges):
        sizes = ", ".join(f"{{{name}}}" for name in names)
        return build_expression(f"{np}.indices(({sizes}){option})", **names)
    axes = {name: _range_call(np, one) for name, one in zip(names, ranges, strict=True)}
    listed = ", ".join(f"{{{name}}}" for name in axes)
    mesh = build_expression(f'{np}.meshgrid({listed}, indexing="ij"{option})', **axes)
    return mesh if sparse or separated else build_expression(f"{np}.stack({{mesh}})", mesh=mesh)


def _range_call(np: str, one: cst.Slice) -> cst.BaseExpression:
    """Return the `np.arange` call for a slice: `np.arange(1, n)` for `1:n`."""
    parts = {"lower": one.lower or cst.Integer("0"), "upper": one.upper, "step": one.step}
    given = {name: part for name, part in parts.items() if part is not None}
    if one.step is None and _is_zero(one.lower):
        del given["lower"]
    return build_expression(f"{np}.arange({', '.join(f'{{{name}}}' for name in given)})", **given)


def _is_zero(node: cst.BaseExpression | None) -> bool:
    return node is None or (isinstance(node, cst.Integer) and int(node.value) == 0)


def _is_unpacked(site: Site, node: cst.Subscript) -> bool:
    """Return whether the grid `node` is assigned to a tuple of variables: `x, y = np.mgrid[…]`."""
    match site.document.parent(node):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple())]):
            return True
    return False


def _is_int(site: Site, node: cst.BaseExpression) -> bool | None:
    """Return whether `node`, a bound or step of a slice, is an int; None if unknown."""
    if isinstance(node, cst.Integer):
        return True
    if isinstance(node, cst.Float | cst.Imaginary):
        return False
    seen = site.observed(node)
    if seen is None and isinstance(node, cst.BinaryOperation):
        sides = (_is_int(site, node.left), _is_int(site, node.right))
        return False if False in sides else None if None in sides else True
    return None if seen is None else seen.types == ("int",)


RULE = Rule("FG231", "spell-out-grid", frozenset({Category.NUMPY.value}), rewrite)
