"""Python constructs in a script that Dynamo has to model, in words."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator, Mapping

_LISTS = ("append", "extend", "insert")
"""Methods that write to a list, and to a dict."""
_DICTS = ("setdefault", "popitem")
_TEXTS = ("str", "repr", "format")


def python_constructs(text: str) -> tuple[str, ...]:
    """Return the Python constructs in a script that may trouble Dynamo, in words, each once.

    "the return value of a generator", "str() of a KeyError", "list.append to a closure variable".
    """
    free = _free_variables(symtable.symtable(text, "script", "exec"))
    return tuple(dict.fromkeys(_constructs_of(ast.parse(text), free)))


def _constructs_of(tree: ast.Module, free: Mapping[int, set[str]]) -> Iterator[str]:
    """Yield the constructs in a script that may trouble Dynamo, in words.

    `free` maps the number of a function's first line to the names of its free variables.
    """
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() if _yields(node) and any(map(_returns_value, node.body)):
                yield "the return value of a generator"
            case ast.FormattedValue(format_spec=ast.JoinedStr()):
                if not _is_message(node, tree):
                    yield "a format specification in an f-string"
            case ast.ExceptHandler(name=str(name)):
                kind = ast.unparse(node.type) if node.type is not None else "BaseException"
                yield from (f"{call}() of a {kind}" for call in _string_conversions(node, name))
            case ast.FunctionDef():
                yield from _writes_to_closure(node, free.get(node.lineno, set()))


def _returns_value(node: ast.stmt) -> bool:
    """Return whether a statement is a `return` with a value."""
    return isinstance(node, ast.Return) and node.value is not None


def _yields(function: ast.FunctionDef) -> bool:
    """Return whether a function is a generator."""
    return any(isinstance(one, ast.Yield | ast.YieldFrom) for one in ast.walk(function))


def _is_message(node: ast.AST, tree: ast.Module) -> bool:
    """Return whether an expression is part of the script's own check, an `assert` at top level."""
    checks = [line for line in tree.body if isinstance(line, ast.Assert | ast.Expr)]
    return any(node is one for line in checks for one in ast.walk(line))


def _string_conversions(handler: ast.ExceptHandler, name: str) -> Iterator[str]:
    """Yield "str" for each `str(name)` in an exception handler; likewise "repr" and "format".

    `name` is the variable of the exception.
    """
    for node in ast.walk(handler):
        match node:
            case ast.Call(func=ast.Name(id=call), args=[ast.Name(id=argument)]):
                if call in _TEXTS and argument == name:
                    yield call


def _writes_to_closure(function: ast.FunctionDef, free: set[str]) -> Iterator[str]:
    """Yield "list.append to a closure variable" for each such call, and likewise for dicts.

    `free` are the free variables of `function`.
    """
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
                kind = "list" if method in _LISTS else "dict" if method in _DICTS else ""
                if kind and name in free:
                    yield f"{kind}.{method} to a closure variable"


def _free_variables(table: symtable.SymbolTable) -> dict[int, set[str]]:
    """Return {number of a function's first line: its free variables}, nested functions included."""
    found: dict[int, set[str]] = {}
    for inner in table.get_children():
        found |= _free_variables(inner)
        if isinstance(inner, symtable.Function):
            found[inner.get_lineno()] = set(inner.get_frees())
    return found


def passes_views(text: str) -> bool:
    """Return whether a script has `y = x[1:]` and passes both `x` and `y` to one call."""
    tree = ast.parse(text)
    passed = [
        {arg.id for arg in node.args if isinstance(arg, ast.Name)}
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    ]
    views = [
        {name, base}
        for line in tree.body
        if isinstance(line, ast.Assign)
        for name, base in _slices_of(line)
    ]
    return any(pair <= names for pair in views for names in passed)


def _slices_of(line: ast.Assign) -> Iterator[tuple[str, str]]:
    """Yield ("y", "x") for a statement `y = x[1:]`; nothing for other statements."""
    match line:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript(value=ast.Name(id=base))):
            yield name, base
