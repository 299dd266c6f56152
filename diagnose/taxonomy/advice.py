"""What to try against a graph break."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from fullgraph.diagnose.explanation_data import Advice
from fullgraph.diagnose.taxonomy import fixes_data, fixes_python, fixes_world
from fullgraph.diagnose.taxonomy.categories import Category as C
from fullgraph.diagnose.taxonomy.fix import Fix
from fullgraph.diagnose.taxonomy.switches import SWITCHES

FIXES: dict[C, tuple[Fix, ...]] = fixes_data.FIXES | fixes_world.FIXES | fixes_python.FIXES
_LAST_RESORT = Advice("Move it out of the compiled function.", "code")


def advise(category: C, expression: str, statement: str = "") -> tuple[Advice, ...]:
    """Return what to try against a break of a category, best first.

    Source changes come before compiler settings. Among them, those for code that reads like
    `expression` or its `statement` come first, then those with a tested example, then the rest.
    """
    fitting = [f for f in FIXES.get(category, ()) if f.fits(expression, statement)]
    fitting.sort(key=lambda fix: (not fix.when, not fix.advice.modes))
    switches = [s.advice for s in SWITCHES.get(category, ())]
    if not fitting and not switches:
        return (_LAST_RESORT,)
    own = (with_user_expression(fix.advice, category, expression) for fix in fitting)
    return (*own, *switches)


_METHODS = {"sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "tanh", "floor", "ceil"}
"""Functions of `math` that tensors have as methods of the same name and meaning."""


def with_user_expression(advice: Advice, category: C, expression: str) -> Advice:
    """Return `advice` with the user's expression as its example, where that is surely correct."""
    rewrite = _REWRITES.get((category, advice.text))
    if rewrite is None:
        return advice
    try:
        (node,) = ast.parse(expression.strip()).body
    except (SyntaxError, ValueError):
        return advice
    after = rewrite(node.value if isinstance(node, ast.Expr) else node)
    return advice if after is None else replace(advice, before=expression.strip(), after=after)


def _guard_call(node: ast.AST) -> str | None:
    if not isinstance(node, ast.Call):
        return None
    return f"if not torch.compiler.is_compiling():\n    {ast.unparse(node)}"


def _first_argument(node: ast.AST) -> str | None:
    """Rewrite `f(x)` as `x`."""
    if isinstance(node, ast.Call) and node.args:
        return ast.unparse(node.args[0])
    return None


def _clone_argument(node: ast.AST) -> str | None:
    """Rewrite `f(x)` as `x.clone()`."""
    match node:
        case ast.Call(args=[ast.Name() | ast.Attribute() as tensor], keywords=[]):
            return f"{ast.unparse(tensor)}.clone()"
    return None


def _call_method(node: ast.AST) -> str | None:
    """Rewrite `math.sqrt(x)` as `x.sqrt()`."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="math"), attr=name), args=[tensor], keywords=[]
        ) if name in _METHODS:
            simple = isinstance(tensor, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
            text = ast.unparse(tensor)
            return f"{text if simple else f'({text})'}.{name}()"
    return None


def _multiply_shape(node: ast.AST) -> str | None:
    match node:
        case ast.Call(func=ast.Name(id="int"), args=[inner], keywords=[]):
            return _multiply_shape(inner)
        case ast.Call(func=ast.Attribute(attr="prod"), args=[shape], keywords=[]):
            return f"math.prod({ast.unparse(shape)})"
    return None


_GUARD = "Guard it with `torch.compiler.is_compiling()`."
_REWRITES: dict[tuple[C, str], Callable[[ast.AST], str | None]] = {
    (C.PRINT, _GUARD): _guard_call,
    (C.WARNING, _GUARD): _guard_call,
    (C.VARIABLE, "Drop the wrapper."): _first_argument,
    (C.COPY, "Clone the tensor."): _clone_argument,
    (C.SCALAR, "Use the tensor's own method instead of `math`."): _call_method,
    (C.NUMPY_SCALAR, "Use `math.prod` on shapes."): _multiply_shape,
}
