"""Read the text of a script: its backend, what it compares, its length."""

from __future__ import annotations

import ast
import re

from fullgraph.compiler.ladder import RUNGS, follows_autograd

_BACKEND = re.compile(r'(?<=backend=")\w+(?=")')
"""Matches the name of the backend in a script."""


def lower_backend(text: str, backend: str) -> str:
    """Return the script with `backend` in place of the backend that it names.

    Raises ValueError unless the script names exactly one backend.
    """
    if len(_BACKEND.findall(text)) != 1:
        raise ValueError("A script names its backend once.")
    return _BACKEND.sub(backend, text)


def backend_of(text: str) -> str | None:
    """Return the backend that a script names; None unless it names exactly one."""
    found = _BACKEND.findall(text)
    return found[0] if len(found) == 1 else None


def backend_below(backend: str) -> str | None:
    """Return the backend one rung below: "eager" for "aot_eager"; None for "eager".

    A repro script must pass with it. For a backend that is no rung: "eager", or "aot_eager" if it
    follows on AOTAutograd, as `loops` does.
    """
    names = [rung.backend for rung in RUNGS]
    if backend not in names:
        return "aot_eager" if follows_autograd(backend) else "eager"
    found = names[names.index(backend) - 1]
    return found if isinstance(found, str) else None


def compared_expressions(text: str) -> tuple[str, str, bool] | None:
    """Return the two expressions that the last statement compares, and whether by `assert_close`.

    For `assert got == expected`: ("got", "expected", False). None if the statement compares
    nothing.
    """
    statement = ast.parse(text).body[-1]
    while isinstance(statement, ast.With):
        statement = statement.body[-1]
    match statement:
        case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
            return ast.unparse(left), ast.unparse(right), False
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="assert_close"), args=[one, other])):
            return ast.unparse(one), ast.unparse(other), True
    return None


def count_lines(text: str) -> int:
    """Return the number of lines of a text, without comments and blank lines."""
    lines = (line.strip() for line in text.splitlines())
    return sum(1 for line in lines if line and not line.startswith("#"))
