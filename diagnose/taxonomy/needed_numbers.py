"""The number that an expression needs: what it is taken from, and how Python computes it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from fullgraph.diagnose.taxonomy.usage import NUMPY_VALUE, TRACED, Usage, parse

NUMPY_TWINS = {
    "vectorize": "call the function with the whole tensor: torch's operations are vectorized",
    "apply_along_axis": "call the function with the whole tensor and `dim=`, or use `torch.vmap`",
    "apply_over_axes": "call torch's function with `dim=` once for each dimension",
    "frompyfunc": "write the function with torch's operations, on the whole tensor",
    "isscalar": "ask `isinstance(x, (int, float))`, or `x.ndim == 0` of a tensor",
    "interp": "use `torch.searchsorted` and `torch.lerp`, or compute the table in `__init__`",
    "digitize": "use `torch.bucketize(x, bins, right=True)`",
    "isin": "use `torch.isin`",
    "intersect1d": "use `torch.isin` with a mask: how much both have in common depends on the data",
    "setdiff1d": "use `~torch.isin` as a mask: how much is left over depends on the data",
    "union1d": "compute it before the compiled region: its size depends on the data",
    "nanmean": "use `torch.nanmean`",
    "nanmedian": "use `torch.nanquantile(x, 0.5)`",
    "nanquantile": "use `torch.nanquantile`",
    "pad": "use `torch.nn.functional.pad`",
    "piecewise": "use `torch.where`, once for each piece",
    "trapezoid": "use `torch.trapezoid`",
    "unravel_index": "use `torch.unravel_index`",
}
"""What to do in place of a NumPy function that Dynamo does not trace."""


def _number(usage: Usage) -> str:
    """Return `self.k` for `torch.topk(x, self.k)`.

    It is the only argument after the first that was a tensor or a number of NumPy, or else the only
    one that is no literal, dtype or device. Return "" for other code, and if several are.
    """
    node = parse(usage.expression)
    node = node.iter if isinstance(node, ast.For) else node
    if not isinstance(node, ast.Call):
        return ""
    counts = usage.is_of_numpy or ast.unparse(node.func) == "range"
    values = node.args[0 if counts else 1 :]
    values += [one.value for one in node.keywords if one.arg not in ("dtype", "device", "out")]
    values += [one for value in values if isinstance(value, ast.Tuple) for one in value.elts]
    texts = [
        ast.unparse(one)
        for one in values
        if not isinstance(one, ast.Constant | ast.Tuple | ast.List)
    ]
    seen = [text for text in texts if _is_traced(usage, text)]
    found = dict.fromkeys(seen or texts)
    plain = [text for text in found if re.fullmatch(r"[\w.]+", text)]
    if len(plain) == 1 and all(re.search(rf"\b{re.escape(plain[0])}\b", one) for one in found):
        return plain[0]
    return next(iter(found)) if len(found) == 1 else ""


def _is_traced(usage: Usage, code: str) -> bool:
    """Return whether a part of the expression was seen to be a tensor or a value of NumPy."""
    return bool(TRACED.match(usage.parts.get(code, "")))


def _step(usage: Usage) -> str:
    """Return `r` for `range(0, n, r)` if `r` was a tensor, or where it starts; "" for its end."""
    number = _number(usage)
    found = re.search(r"\brange\((.*)\)", usage.expression)
    arguments = [one.strip() for one in found[1].split(",")] if found else []
    is_end = arguments[:2][-1:] == [number]
    return number if _is_traced(usage, number) and number in arguments and not is_end else ""


def _python_number(usage: Usage) -> str:
    """Return `max(sizes)` for the number that `np.max(sizes)` gives; "" for other code.

    The number is the expression, or the one that it needs.
    """
    number = _number(usage)
    for text in (usage.expression, usage.origins.get(number, number)):
        if found := _in_python(parse(text), usage):
            return found
    return ""


_BUILTINS = {"max": "max", "min": "min", "sum": "sum", "amax": "max", "amin": "min"}
_BUILTINS |= {name: f"math.{name}" for name in ("prod", "ceil", "floor", "sqrt", "log", "exp")}


def _in_python(node: ast.AST | None, usage: Usage) -> str:
    """Return the code with Python's functions in place of NumPy's on numbers; "" if not known."""
    match node:
        case ast.Call(func=ast.Name(id="int" | "float"), args=[inner], keywords=[]):
            return _in_python(inner, usage)
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name),
            args=[argument],
            keywords=[],
        ) if _is_of_numbers(argument, usage):
            text = ast.unparse(argument)
            if name in ("mean", "average"):
                return f"sum({text}) / len({text})" if isinstance(argument, ast.Name) else ""
            return f"{_BUILTINS[name]}({text})" if name in _BUILTINS else ""
    return ""


_OF_NUMBERS = re.compile(r"[\[(]?-?\d|(list|tuple|torch\.Size)\b.*\b(int|float)\b|torch\.Size")


def _is_of_numbers(node: ast.AST, usage: Usage) -> bool:
    """Return whether code is a Python number, or a list of some, as seen or as it is written."""
    if seen := usage.parts.get(ast.unparse(node)):
        return bool(_OF_NUMBERS.match(seen))
    match node:
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return all(_is_of_numbers(item, usage) for item in items)
        case ast.ListComp(elt=item) | ast.GeneratorExp(elt=item) | ast.Subscript(value=item):
            return _is_of_numbers(item, usage)
        case ast.BinOp(left=left, right=right):
            return _is_of_numbers(left, usage) and _is_of_numbers(right, usage)
        case ast.Constant(value=int() | float()) | ast.Call(func=ast.Name(id="len")):
            return True
        case (
            ast.Attribute(attr="shape")
            | ast.Call(func=ast.Attribute(attr="size" | "numel" | "item" | "tolist"))
        ):
            return True
        case ast.Name(id=name) if origin := parse(usage.origins.get(name, "")):
            return _is_of_numbers(origin, usage)
    return False


def _tensor(usage: Usage) -> str:
    """Return what the number in `int(x.sum())` is taken from: "the 0-d tensor"."""
    match parse(usage.expression):
        case ast.Call(func=ast.Attribute(value=inner, attr="item")) | ast.Call(args=[inner]):
            seen = usage.parts.get(ast.unparse(inner), "")
            if NUMPY_VALUE.match(seen):
                return "the NumPy value"
            return "the tensor" if re.search(r"\[\d", seen) else "the 0-d tensor"
    return "the 0-d tensor"


def _kind(usage: Usage) -> str:
    """Return the type in which a number, or several, can be passed instead of a tensor."""
    several = re.search(r"\[\d", usage.parts.get(_number(usage), ""))
    return "a list of ints" if several else "a Python int"


def _traced(usage: Usage) -> str:
    """Return the number if it was seen to be a tensor or a value of NumPy; "" if it was not."""
    number = _number(usage)
    return number if _is_traced(usage, number) else ""


def _numpy(usage: Usage) -> str:
    """Return what to do in place of the NumPy function in the expression; "" if unknown."""
    names = re.findall(r"\b(?:np|numpy)\.(\w+)", usage.expression)
    return next((NUMPY_TWINS[name] for name in names if name in NUMPY_TWINS), "")


PARTS: dict[str, Callable[[Usage], str]] = {
    "number": _number,
    "traced": _traced,
    "kind": _kind,
    "step": _step,
    "python": _python_number,
    "tensor": _tensor,
    "numpy": _numpy,
}
"""By name, parts of remedies, as in `user_code.PARTS`."""
