"""Definitions of live functions and classes, and the values of the names in them."""

from __future__ import annotations

import ast
import inspect
import symtable
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

from fullgraph.compiler.sources import Owner, Source, first_line, owner_of, read_source
from fullgraph.minifier.extract import stubs


@dataclass(frozen=True, eq=False)
class Origin:
    """Definition of a function or class in its source, and the values of the names in it."""

    source: Source
    node: ast.stmt | ast.Lambda
    names: Mapping[str, object]
    """Globals and closure variables, by name."""


def is_user_object(thing: object) -> bool:
    """Return whether a module, class or function is the user's, not Python's or a package's.

    The stubs that replace modules of the user count as the user's.
    """
    if getattr(thing, "__module__", "") == stubs.__name__:
        return True
    if isinstance(thing, ModuleType):
        file = getattr(thing, "__file__", None)
        return file is not None and owner_of(file) is Owner.USER
    file = _file_of(thing)
    return file is not None and owner_of(file) is Owner.USER


def find_origin(thing: object) -> Origin | None:
    """Return the definition of a class or function; None if its source cannot be read."""
    if isinstance(thing, type):
        return _class_origin(thing)
    function = unwrap_function(thing)
    code: CodeType = function.__code__
    source = read_source(code.co_filename, function.__globals__)
    if source is None:
        return None
    node = _definition_of(source, code)
    return None if node is None else Origin(source, node, _names_of(function))


def _class_origin(kind: type) -> Origin | None:
    """Return the definition of a class, found through its methods; None if it cannot be read."""
    file, methods = _file_of(kind), _methods_of(kind)
    module = sys.modules.get(kind.__module__)
    names: dict[str, object] = dict(vars(module)) if module is not None else {}
    for method in methods:
        names = {**names, **_names_of(method)}
    source = read_source(file, names) if file is not None else None
    if source is None:
        return None
    lines = {m.__code__.co_firstlineno for m in methods}
    found = [
        node
        for node in source.statements
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    ]
    holding = [n for n in found if lines & {first_line(s) for s in n.body}]
    best = holding or found
    return Origin(source, best[-1], names) if best else None


def _file_of(thing: object) -> str | None:
    """Return the file that defines a class or function; None if unknown."""
    if isinstance(thing, type):
        for method in _methods_of(thing):
            return method.__code__.co_filename
        module = sys.modules.get(thing.__module__)
        return getattr(module, "__file__", None)
    function = unwrap_function(thing)
    return function.__code__.co_filename if isinstance(function, FunctionType) else None


def _methods_of(kind: type) -> list[FunctionType]:
    """Return the functions written in a class body, without those that a decorator made."""
    found = []
    for held in vars(kind).values():
        inner = getattr(held, "__func__", None) or getattr(held, "fget", None) or held
        function = unwrap_function(inner)
        own = isinstance(function, FunctionType) and function.__module__ == kind.__module__
        inside = own and function.__qualname__.startswith(f"{kind.__qualname__}.")
        if inside and not function.__code__.co_filename.startswith("<string"):
            found.append(function)
    return found


def unwrap_function(thing: object) -> Any:
    """Return the function inside its decorators; classes and other objects unchanged."""
    return inspect.unwrap(thing) if callable(thing) and not isinstance(thing, type) else thing


def _names_of(function: FunctionType) -> dict[str, object]:
    """Return the values of a function's globals and closure variables, by name."""
    names = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not given a value yet
            continue
    return names


def _definition_of(source: Source, code: CodeType) -> ast.stmt | ast.Lambda | None:
    """Return the definition from which a code object was compiled; None if it is not found."""
    if code.co_name != "<lambda>":
        for statement in source.statements:
            function = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
            if function and first_line(statement) == code.co_firstlineno:
                return statement
        return None
    spots = [(a, c) for a, b, c, d in code.co_positions() if a is not None and c is not None and d]
    fitting = [
        node
        for node in source.parents
        if isinstance(node, ast.Lambda)
        and node.lineno == code.co_firstlineno
        and all(_covers(node, spot) for spot in spots)
    ]
    return min(fitting, key=lambda n: len(source.segment(n)), default=None)


def _covers(node: ast.expr, spot: tuple[int, int]) -> bool:
    """Return whether the source position `spot`, a (line, column), is inside a node."""
    start, end = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    return start <= spot <= end or spot == (node.lineno, 0)


def text_of(place: Origin) -> str:
    """Return the source of a definition, without indentation.

    Its closure variables become globals: `nonlocal n` becomes `global n`.
    """
    node, source = place.node, place.source
    if isinstance(node, ast.Lambda):
        return source.segment(node)
    lines = source.lines[first_line(node) - 1 : node.end_lineno]
    text = "\n".join(
        line[node.col_offset :] if not line[: node.col_offset].strip() else line for line in lines
    )
    if isinstance(node, ast.FunctionDef) and node.col_offset:
        for inner in node.body:
            if isinstance(inner, ast.Nonlocal):
                names = ", ".join(inner.names)
                text = text.replace(f"nonlocal {names}", f"global {names}", 1)
    return text


def global_names(text: str) -> set[str]:
    """Return the global names that the source `text` reads, builtins included."""
    found: set[str] = set()
    tables = [symtable.symtable(text, "<piece>", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if symbol.is_global() or (top and symbol.is_referenced()):
                found.add(symbol.get_name())
    return found


def find_binding(name: str, names: Mapping[str, object]) -> Origin | None:
    """Return the last top-level statement of a module that binds `name`; None if there is none.

    `names` are the module's globals, which also tell its file.
    """
    file = names.get("__file__")
    source = read_source(file, dict(names)) if isinstance(file, str) else None
    if source is None:
        return None
    found = [s for s in source.tree.body if name in _names_bound(s)]
    return Origin(source, found[-1], names) if found else None


def _names_bound(statement: ast.stmt) -> Sequence[str]:
    """Return the names that a definition, import or assignment binds; [] for other statements."""
    match statement:
        case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
            return [statement.name]
        case ast.Import() | ast.ImportFrom():
            return [a.asname or a.name.partition(".")[0] for a in statement.names]
        case ast.Assign():
            stored = (n for target in statement.targets for n in ast.walk(target))
            return [n.id for n in stored if isinstance(n, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []
