"""Some functions of NumPy are not traced, and can be written with others that are.

New names (`np.concat`, `np.acos`, `np.pow`), `np.select`, sums that pass over NaN, `np.ndindex`.

Before:

    y = np.select([x < 0, x > 1], [a, b], x)
    total = np.nansum(x, axis=1)
    for i, j in np.ndindex(h, w): ...

After:

    y = np.where(x < 0, a, np.where(x > 1, b, x))
    total = np.sum(np.where(np.isnan(x), 0, x), axis=1)
    for i, j in itertools.product(range(h), range(w)): ...

The values are the same. Unsafe for sums and products, but of bools and signed integers: NumPy warns
of infinities of both signs and of an overflow, and traced code does not; of unsigned integers NumPy
gives uint64, and traced code int64.

Refuses: functions that no others can be written for (`np.interp`, `np.vectorize`), calls with
`out=`, and arguments that would be computed twice.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site, walk
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression

_NAMES = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asanyarray": "asarray",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "bitwise_invert": "bitwise_not",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "concat": "concatenate",
    "permute_dims": "transpose",
    "pow": "power",
}
"""NumPy's older names of functions, by their names in the array API standard."""
_NAN = {"nansum": ("sum", "0"), "nanprod": ("prod", "1"), "nancumsum": ("cumsum", "0")}
_NAN |= {"nancumprod": ("cumprod", "1")}
_NO_WARNING = "nobody needs NumPy's warning of an overflow or of infinities of both signs"
_SIGNED = "int64 will do for sums and products of unsigned integers"
_WHY = "Functions of NumPy that are traced do the same."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    calls = [one for one in walk(site.node) if site.callee_name(one).startswith("numpy.")]
    for call in calls:
        assert isinstance(call, cst.Call)
        name = site.document.qualified_name(call.func).removeprefix("numpy.")
        if any(arg.star or (arg.keyword and arg.keyword.value == "out") for arg in call.args):
            return Refusal("its arguments are not spelled out")
        new = _traced_form(site, call, name)
        if isinstance(new, Refusal):
            return new
        if new is not None:
            imports = ("itertools",) if name == "ndindex" else ()
            if name not in _NAN or _holds_signed_integers(site, call.args[0].value):
                return Rewrite({call: new}, _WHY, imports=imports)
            assumes = (_NO_WARNING, _SIGNED)
            return Rewrite({call: new}, _WHY, Applicability.UNSAFE, assumes, imports)
    return Refusal("no other functions of NumPy do the same") if calls else None


def _holds_signed_integers(site: Site, array: cst.BaseExpression) -> bool:
    seen = site.observed(array)
    kinds = {one.dtype.rstrip("0123456789") for one in seen.arrays} if seen is not None else set()
    return bool(kinds) and kinds <= {"int", "bool"}


def _traced_form(site: Site, call: cst.Call, name: str) -> cst.BaseExpression | Refusal | None:
    """Return a NumPy call rewritten so that Dynamo traces it, or a refusal.

    For `np.nansum(x)` this is `np.sum(np.where(np.isnan(x), 0, x))`. None if no equivalent of the
    NumPy function `name` is known.
    """
    if not isinstance(call.func, cst.Attribute):
        return None
    np = site.document.code(call.func.value)
    if name in _NAMES:
        return call.with_changes(func=call.func.with_changes(attr=cst.Name(_NAMES[name])))
    if name in _NAN and call.args and call.args[0].keyword is None:
        array, *_ = call.args
        if not isinstance(array.value, cst.Name | cst.Attribute):
            return Refusal("its argument would be computed twice")
        function, neutral = _NAN[name]
        text = f"{np}.where({np}.isnan({{a}}), {neutral}, {{a}})"
        filled = array.with_changes(value=build_expression(text, a=array.value))
        func = call.func.with_changes(attr=cst.Name(function))
        return call.with_changes(func=func, args=[filled, *call.args[1:]])
    if name == "select":
        return _nested_where(np, call)
    if name == "ndindex" and call.args and all(arg.keyword is None for arg in call.args):
        sizes = [arg.value for arg in call.args]
        if len(sizes) == 1 and isinstance(sizes[0], cst.Tuple):
            sizes = [element.value for element in sizes[0].elements]
        seen = [site.observed(one) for one in sizes]
        if any(one is not None and one.types != ("int",) for one in seen):
            return Refusal("its argument is no whole number")
        parts = {f"n{i}": size for i, size in enumerate(sizes)}
        ranges = ", ".join(f"range({{{name}}})" for name in parts)
        return build_expression(f"itertools.product({ranges})", **parts)
    return None


def _nested_where(np: str, call: cst.Call) -> cst.BaseExpression | Refusal:
    """Return `np.where(c, x, np.where(d, y, z))` for `np.select([c, d], [x, y], z)`.

    `np` is the name of NumPy in the file. The result is a refusal if the conditions or choices are
    not list literals.
    """
    match call.args:
        case [cst.Arg(value=cst.List() as tests), cst.Arg(value=cst.List() as values), *rest]:
            pass
        case _:
            return Refusal("its conditions and choices are not spelled out")
    if len(tests.elements) != len(values.elements) or len(rest) > 1:
        return Refusal("its conditions and choices are not spelled out")
    new: cst.BaseExpression = rest[0].value if rest else cst.Integer("0")
    for test, value in reversed(list(zip(tests.elements, values.elements, strict=True))):
        parts = {"test": test.value, "value": value.value, "other": new}
        new = build_expression(f"{np}.where({{test}}, {{value}}, {{other}})", **parts)
    return new


RULE = Rule("FG232", "spell-out-numpy", frozenset({Category.NUMPY.value}), rewrite)
