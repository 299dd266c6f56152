"""Files with another text, in memory: live functions run it, and everyone reads it.

Where `recode` exchanges single expressions and keeps all positions, an overlay takes the whole
new text of a file, as an editor would save it, without writing it anywhere.
"""

from __future__ import annotations
import __future__

import ast
import linecache
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType

from fullgraph.compiler.sources.edited_functions import CodeIdentity, code_identity
from fullgraph.compiler.sources.live_functions import find_live_functions, index_live_functions
from fullgraph.compiler.sources.source import read_source

_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag


@dataclass(frozen=True)
class SourceOverride:
    """Functions that run new code inside `override_sources`, and what could not be replaced."""

    functions: tuple[FunctionType, ...]
    refused: tuple[str, ...]
    """Clauses that fit after "because", one for each function that keeps its old code."""


@contextmanager
def override_sources(texts: Mapping[str, str]) -> Iterator[SourceOverride]:
    """Run and read the files of `texts` (by path) with these texts; undo all on exit.

    New imports and functions at a file's top level are added to its globals. What already ran (a
    class body, an `__init__` that made a model) does not run again. Functions that the new code
    created meanwhile get their old code back where there is one.
    """
    refused: list[str] = []
    twins: dict[CodeIdentity, CodeType] = {}
    with ExitStack() as undo:
        undo.enter_context(index_live_functions())
        functions = find_live_functions(texts)
        swapped: list[FunctionType] = []
        for file, text in texts.items():
            here = functions[file]
            source = read_source(file, here[0].__globals__ if here else None)
            if source is None:
                refused.append(f"the source of {file} cannot be read")
                continue
            flags = here[0].__code__.co_flags & _FUTURE if here else 0
            old, new = _compiled(source.text, file, flags), _compiled(text, file, flags)
            pairs = {
                code_identity(a): (a, b)
                for a, b in _pairs(old, new)
                if code_identity(a) != code_identity(b)
            }
            namespaces = {id(f.__globals__): f.__globals__ for f in here}
            for namespace in namespaces.values():
                undo.enter_context(_defined(namespace, source.tree, text, file, flags))
            for function in here:
                _, code = pairs.get(code_identity(function.__code__), (None, None))
                if code is None:
                    continue
                if code.co_freevars != function.__code__.co_freevars:
                    name = function.__qualname__
                    refused.append(f"the edit changes which variables {name} closes over")
                    continue
                undo.callback(setattr, function, "__code__", function.__code__)
                function.__code__ = code
                swapped.append(function)
            twins.update({code_identity(b): a for a, b in pairs.values()})
            undo.enter_context(_readable(file, text))
        undo.callback(_put_back, tuple(texts), twins)
        yield SourceOverride(tuple(swapped), tuple(refused))


def _put_back(files: Sequence[str], twins: Mapping[CodeIdentity, CodeType]) -> None:
    for functions in find_live_functions(files).values():
        for function in functions:
            code = twins.get(code_identity(function.__code__))
            if code is not None and code.co_freevars == function.__code__.co_freevars:
                function.__code__ = code


def _compiled(text: str, file: str, flags: int) -> CodeType:
    code = compile(text, file, "exec", flags=flags, dont_inherit=True)
    assert isinstance(code, CodeType)
    return code


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Each code inside `old` with the one that took its place inside `new`."""
    groups: dict[str, tuple[list[CodeType], list[CodeType]]] = {}
    for side, code in enumerate((old, new)):
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                groups.setdefault(inner.co_name, ([], []))[side].append(inner)
    for olds, news in groups.values():
        if len(olds) != len(news):  # one was added or taken away: the same code is the same
            same = [(a, b) for a in olds for b in news if _alike(a, b)]
            olds, news = [a for a, _ in same], [b for _, b in same]
        for pair in zip(olds, news, strict=True):
            yield pair
            yield from _pairs(*pair)


def _alike(a: CodeType, b: CodeType) -> bool:
    return a.co_code == b.co_code and a.co_names == b.co_names and a.co_varnames == b.co_varnames


@contextmanager
def _defined(
    namespace: dict[str, object], old: ast.Module, text: str, file: str, flags: int
) -> Iterator[None]:
    """Run the imports and functions that are new at the top level of `text` in `namespace`."""
    known = {ast.dump(statement) for statement in old.body}
    names = {name for statement in old.body for name in _names(statement)}
    fresh = [
        statement
        for statement in ast.parse(text, file).body
        if ast.dump(statement) not in known
        and (isinstance(statement, ast.Import | ast.ImportFrom) or _names(statement) - names)
    ]
    added = {name for statement in fresh for name in _names(statement)} - namespace.keys()
    module = ast.Module([s for s in fresh if _names(s)], [])
    exec(compile(module, file, "exec", flags=flags, dont_inherit=True), namespace)
    try:
        yield
    finally:
        for name in added:
            namespace.pop(name, None)


def _names(statement: ast.stmt) -> set[str]:
    """The names that an import or a definition binds."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    return set()


@contextmanager
def _readable(file: str, text: str) -> Iterator[None]:
    """Let `linecache`, and all who read source through it, see `text`."""
    before = linecache.cache.get(file)
    lines = text.splitlines(keepends=True)
    linecache.cache[file] = (len(text), None, lines, file)  # without a time it is never checked
    try:
        yield
    finally:
        linecache.cache.pop(file, None)
        if before is not None:
            linecache.cache[file] = before
