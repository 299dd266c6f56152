"""Random numbers of Python and NumPy, drawn with torch."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from fullgraph.diagnose.taxonomy.known_functions import callee_of
from fullgraph.diagnose.taxonomy.sentences import quote
from fullgraph.diagnose.taxonomy.usage import Usage, parse

_DRAWS = {
    "rand": "torch.rand({shape})",
    "random": "torch.rand({size})",
    "random_sample": "torch.rand({size})",
    "randn": "torch.randn({shape})",
    "standard_normal": "torch.randn({size})",
    "uniform": "torch.empty({size}).uniform_({both})",
    "normal": "torch.empty({size}).normal_({both})",
    "gauss": "torch.empty({size}).normal_({both})",
    "normalvariate": "torch.empty({size}).normal_({both})",
}
"""What torch has for what random and NumPy draw."""
_WHOLE = {"randint", "randrange", "integers"}
"""Functions that draw a whole number."""


def _drawing(usage: Usage) -> str:
    """Return the code that `drawn` takes the place of, in backquotes."""
    is_sum = isinstance(parse(usage.expression), ast.BinOp | ast.Compare)
    return f"`{_draw(usage)}`" if is_sum else quote(usage.expression)


def _draw(usage: Usage) -> str:
    """Return the first call in the expression that draws a random number: `random.random()`.

    Return "" if the expression has no such call that torch has, too.
    """
    return ast.unparse(call) if (call := _find_draw(usage)) else ""


def _find_draw(usage: Usage) -> ast.Call | None:
    calls = [
        one
        for one in ast.walk(parse(usage.expression) or ast.Module([], []))
        if isinstance(one, ast.Call)
        and isinstance(one.func, ast.Attribute)
        and one.func.attr in {*_DRAWS, *_WHOLE}
    ]
    return next(iter(calls), None)


def _drawn(usage: Usage) -> str:
    """Return `torch.rand(())` for `random.random()`; "" for other code, and unknown arguments."""
    call = _find_draw(usage)
    if call is None:
        return ""
    name = ast.unparse(call.func).rpartition(".")[2]
    given = {one.arg: ast.unparse(one.value) for one in call.keywords}
    values = [ast.unparse(one) for one in call.args]
    if name in _WHOLE:
        first, last = [*(["0"] if len(values) == 1 else []), *values][:2] if values else ("", "")
        size = given.pop("size", values[2] if len(values) > 2 else "()")
        inclusive = " + 1" if ast.unparse(call.func) == "random.randint" else ""
        shape = size if re.search(r"\A\(|\.shape\Z", size) else f"({size},)"
        return "" if given or not last else f"torch.randint({first}, {last}{inclusive}, {shape})"
    shape = ", ".join(values) or "()"
    takes = 2 if "{both}" in _DRAWS[name] else 0
    size = given.pop("size", values[takes] if len(values) > takes else "()")
    both = ", ".join(
        [*values[:takes], *(given.pop(key, "") for key in ("low", "high", "loc", "scale"))]
    )
    both = both.strip(", ")
    if given or (takes and both.count(",") != (1 if both else 0)):
        return ""
    if name == "uniform" and not both:
        return f"torch.rand({size})"
    return _DRAWS[name].format(shape=shape, size=size, both=both)


def _indices(usage: Usage) -> str:
    """Return `torch.randint(n, (k,))` for `np.random.choice(n, k)`; "" for other code."""
    node = parse(usage.expression)
    if not isinstance(node, ast.Call):
        return ""
    name = callee_of(usage.expression).rpartition(".")[2]
    given = {one.arg: one.value for one in node.keywords}
    size = given.get("k", given.get("size", node.args[1] if len(node.args) > 1 else None))
    replace = given.get("replace", node.args[2] if len(node.args) > 2 else None)
    unique = isinstance(replace, ast.Constant) and replace.value is False
    if "p" in given or "weights" in given:
        weights = ast.unparse(given.get("p", given.get("weights")))  # type: ignore[arg-type]
        again = "" if unique else ", replacement=True"
        return f"torch.multinomial({weights}, {ast.unparse(size) if size else 1}{again})"
    if size is None:
        return "torch.randint(n, ())" if name.endswith("choice") else ""
    if unique:
        return f"torch.randperm(n)[:{ast.unparse(size)}]"
    text = ast.unparse(size)
    is_shape = isinstance(size, ast.Tuple) or text.endswith(".shape")
    return f"torch.randint(n, {text if is_shape else f'({text},)'})"


PARTS: dict[str, Callable[[Usage], str]] = {
    "draw": _draw,
    "drawing": _drawing,
    "drawn": _drawn,
    "indices": _indices,
}
"""By name, parts of remedies, as in `user_code.PARTS`."""
