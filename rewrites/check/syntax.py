"""Names, statements and nodes of a parsed file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def dotted(node: ast.AST | None) -> str:
    """Return "a.b.c" for a variable or a path of attributes on one; "" for anything else."""
    path = ""
    while isinstance(node, ast.Attribute):
        path = f".{node.attr}{path}"
        node = node.value
    return node.id + path if isinstance(node, ast.Name) else ""


def is_none(node: ast.expr) -> bool:
    """Return whether an expression is the constant None."""
    return isinstance(node, ast.Constant) and node.value is None


def statements_of(body: Iterable[ast.stmt], types: bool = True) -> Iterator[ast.stmt]:
    """Yield the statements of `body`, also those nested in `if`, `try`, `with` and loops.

    With `types=False`, blocks under `if TYPE_CHECKING:` are left out.
    """
    for one in body:
        yield one
        if not types and isinstance(one, ast.If) and dotted(one.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(one, ast.If | ast.Try | ast.With | ast.For | ast.While):
            for name in ("body", "orelse", "finalbody"):
                yield from statements_of(getattr(one, name, ()), types)
            for handler in getattr(one, "handlers", ()):
                yield from statements_of(handler.body, types)


def assignments_in(statements: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Yield each variable that one of the statements assigns, with the expression assigned."""
    for one in statements:
        match one:
            case ast.Assign(targets=targets, value=value):
                yield from (
                    (target.id, value) for target in targets if isinstance(target, ast.Name)
                )
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


def imported_names(statements: Iterable[ast.stmt], package: str) -> Iterator[tuple[str, str]]:
    """Yield each name that import statements bind, with its qualified name.

    For `import numpy as np` it is ("np", "numpy"). `package` is the package of the importing
    module, to which relative imports refer.
    """
    for one in statements:
        if isinstance(one, ast.Import):
            for alias in one.names:
                first = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (first, first)
        elif isinstance(one, ast.ImportFrom):
            module = absolute_module(one, package)
            for alias in one.names:
                if alias.name != "*":
                    yield alias.asname or alias.name, f"{module}.{alias.name}".lstrip(".")


def absolute_module(node: ast.ImportFrom, package: str) -> str:
    """Return the absolute name of the module in a `from` import.

    For `from .a import b` in the package "pkg" it is "pkg.a".
    """
    if not node.level:
        return node.module or ""
    parts = package.split(".") if package else []
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, node.module] if node.module else parts)


def walk(node: ast.AST, stop: tuple[type[ast.AST], ...] = ()) -> Iterator[ast.AST]:
    """Yield a node and all nodes below it, except `Load` and `Store` contexts.

    Nodes of the types `stop` are yielded, and those below them are not.
    """
    todo = [node]
    while todo:
        one = todo.pop()
        yield one
        if stop and one is not node and isinstance(one, stop):
            continue
        for value in one.__dict__.values():
            if value.__class__ is list:
                todo.extend(inner for inner in value if isinstance(inner, ast.AST))
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                todo.append(value)


def declared_globals(text: str, tree: ast.Module) -> Iterator[str]:
    """Yield the names that functions declare as `global`; `tree` is the syntax tree of `text`."""
    if re.search(r"^\s+global\s+\w", text, re.MULTILINE):
        for node in walk(tree):
            if isinstance(node, ast.Global):
                yield from node.names


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those inside nested functions and classes."""
    nodes = walk(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef))
    next(nodes)
    yield from nodes


def functions_around(tree: ast.AST, node: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions in a tree that contain `node`, innermost first."""
    found = [
        one
        for one in walk(tree)
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        and one is not node
        and one.lineno <= getattr(node, "lineno", 0) <= (one.end_lineno or 0)
        and any(inner is node for inner in walk(one))
    ]
    return sorted(found, key=lambda one: -one.lineno)
