"""The example of an advice, rewritten with the user's own expression."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from fullgraph.diagnose.explanation import Advice
from fullgraph.diagnose.taxonomy.categories import Category as C

_METHODS = {"sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "tanh", "floor", "ceil"}
"""Functions of `math` that tensors have as methods of the same name and meaning."""


def in_own_words(advice: Advice, category: C, expression: str) -> Advice:
    """`advice` with the user's expression in its example, where that is sure to be right.

    Anything else comes back as it is.
    """
    rewrite = _REWRITES.get((category, advice.text))
    if rewrite is None:
        return advice
    try:
        (node,) = ast.parse(expression.strip()).body
    except (SyntaxError, ValueError):
        return advice
    after = rewrite(node.value if isinstance(node, ast.Expr) else node)
    return advice if after is None else replace(advice, before=expression.strip(), after=after)


def _guarded(node: ast.AST) -> str | None:
    if not isinstance(node, ast.Call):
        return None
    return f"if not torch.compiler.is_compiling():\n    {ast.unparse(node)}"


def _unwrapped(node: ast.AST) -> str | None:
    if isinstance(node, ast.Call) and node.args:
        return ast.unparse(node.args[0])
    return None


def _cloned(node: ast.AST) -> str | None:
    match node:
        case ast.Call(args=[ast.Name() | ast.Attribute() as tensor], keywords=[]):
            return f"{ast.unparse(tensor)}.clone()"
    return None


def _method(node: ast.AST) -> str | None:
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="math"), attr=name), args=[tensor], keywords=[]
        ) if name in _METHODS:
            simple = isinstance(tensor, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
            text = ast.unparse(tensor)
            return f"{text if simple else f'({text})'}.{name}()"
    return None


def _product(node: ast.AST) -> str | None:
    match node:
        case ast.Call(func=ast.Name(id="int"), args=[inner], keywords=[]):
            return _product(inner)
        case ast.Call(func=ast.Attribute(attr="prod"), args=[shape], keywords=[]):
            return f"math.prod({ast.unparse(shape)})"
    return None


_GUARD = "Guard it with `torch.compiler.is_compiling()`."
_REWRITES: dict[tuple[C, str], Callable[[ast.AST], str | None]] = {
    (C.PRINT, _GUARD): _guarded,
    (C.WARNING, _GUARD): _guarded,
    (C.VARIABLE, "Drop the wrapper."): _unwrapped,
    (C.COPY, "Clone the tensor."): _cloned,
    (C.SCALAR, "Use the tensor's own method instead of `math`."): _method,
    (C.NUMPY_SCALAR, "Use `math.prod` on shapes."): _product,
}
