"""Source overrides: new text of a file in memory, which live functions run and `linecache` gives.

`edit_functions` replaces single expressions and keeps all positions. An override takes the whole
new text of a file, as an editor would save it, and writes nothing to disk.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

from fullgraph.compiler.sources.code_objects import (
    CodeIdentity,
    CodePair,
    code_identity,
    compile_module,
    future_flags,
    pair_codes,
)
from fullgraph.compiler.sources.live_functions import find_live_functions, index_live_functions
from fullgraph.compiler.sources.source import read_source


@dataclass(frozen=True)
class NewDecorators:
    """Decorators that a source override adds above those that a live function already has."""

    before: Any
    """Function under its name in its module or class, before it was decorated."""
    after: Any
    """The decorated object that replaces it."""
    decorators: tuple[CodeType, ...]
    """Expressions to evaluate in the function's globals, innermost first."""


@dataclass(frozen=True)
class SourceOverride:
    """Functions that run new code inside `override_sources`, and why other functions do not."""

    functions: tuple[FunctionType, ...]
    refused: tuple[str, ...]
    """Reasons, one for each function that keeps its old code: clauses that fit after "because"."""
    decorated: tuple[NewDecorators, ...] = ()


@contextmanager
def override_sources(texts: Mapping[str, str]) -> Iterator[SourceOverride]:
    """Make live functions run the new source code of their files; restore the old one on exit.

    `texts` maps paths to new code, which `linecache` gives, too. New top-level imports and
    functions join a file's globals, with what registers them; new outermost decorators are applied
    to the live function. Code that already ran (a class body, a model's `__init__`) does not run
    again. On exit, functions that the new code created also get their old code, if there is one.
    """
    refused: list[str] = []
    old_codes: dict[CodeIdentity, CodeType] = {}
    decorated: list[NewDecorators] = []
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
            flags = future_flags(here)
            try:
                pairs = _changed_codes(source.tree, ast.parse(text, file), file, flags, here)
            except SyntaxError as error:
                refused.append(f"the new code of {file} is not valid Python: {error.msg}")
                continue
            namespaces = {id(f.__globals__): f.__globals__ for f in here}
            for namespace in namespaces.values():
                undo.enter_context(_define_new_names(namespace, source.tree, text, file, flags))
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
            for path, decorators in _new_decorators(source.tree, ast.parse(text, file)):
                codes = tuple(compile(ast.Expression(one), file, "eval") for one in decorators)
                made = [
                    undo.enter_context(_decorate(namespace, path, codes))
                    for namespace in namespaces.values()
                ]
                decorated += [one for one in made if one is not None]
                if None in made:
                    refused.append(f"the new decorator of {'.'.join(path)} cannot be applied")
            old_codes.update({code_identity(b): a for a, b in pairs.values()})
            undo.enter_context(_override_linecache(file, text))
        undo.callback(_restore_codes, tuple(texts), old_codes)
        yield SourceOverride(tuple(swapped), tuple(refused), tuple(decorated))


def _restore_codes(files: Sequence[str], old_codes: Mapping[CodeIdentity, CodeType]) -> None:
    """Give every live function of the files its old code back."""
    for functions in find_live_functions(files).values():
        for function in functions:
            code = old_codes.get(code_identity(function.__code__))
            if code is not None and code.co_freevars == function.__code__.co_freevars:
                function.__code__ = code


def _changed_codes(
    old: ast.Module, new: ast.Module, file: str, flags: int, functions: Sequence[FunctionType]
) -> dict[CodeIdentity, CodePair]:
    """Return (old code, new code) for each code object that differs in `new`, by its identity.

    Both are compiled in the way that gives the running code of `functions`.
    """
    pairs: dict[CodeIdentity, CodePair] = {}
    running = {code_identity(function.__code__) for function in functions}
    for alone in (False, True):
        olds, news = (compile_module(tree, file, flags, alone) for tree in (old, new))
        pairs = {
            code_identity(a): (a, b)
            for a, b in pair_codes(olds, news, lambda code: code.co_name, _match_equal)
        }
        if running & pairs.keys():
            break
    return {key: (a, b) for key, (a, b) in pairs.items() if code_identity(b) != key}


def _match_equal(olds: list[CodeType], news: list[CodeType]) -> list[CodePair]:
    """Pair code objects with the same instructions; used if functions were added or removed."""
    return [(a, b) for a in olds for b in news if _is_same_code(a, b)]


def _is_same_code(a: CodeType, b: CodeType) -> bool:
    return a.co_code == b.co_code and a.co_names == b.co_names and a.co_varnames == b.co_varnames


@contextmanager
def _define_new_names(
    namespace: dict[str, object], old: ast.Module, text: str, file: str, flags: int
) -> Iterator[None]:
    """Inside the block, add the names to `namespace` that are new in `text`.

    Only the top level counts. `old` is the parsed old text of `file`. Expressions and `if`s that
    directly follow a new function run, too: they register what it is.
    """
    known = {ast.dump(statement) for statement in old.body}
    names = {name for statement in old.body for name in _bound_names(statement)}
    fresh: list[ast.stmt] = []
    follows = False
    for statement in ast.parse(text, file).body:
        is_import = isinstance(statement, ast.Import | ast.ImportFrom)
        registers = follows and isinstance(statement, ast.Expr | ast.If)
        binds = _bound_names(statement) and (is_import or _bound_names(statement) - names)
        is_new = ast.dump(statement) not in known and (registers or bool(binds))
        follows = is_new and (registers or isinstance(statement, ast.FunctionDef))
        fresh += [statement] if is_new else []
    added = {name for statement in fresh for name in _bound_names(statement)} - namespace.keys()
    module = ast.Module(fresh, [])
    exec(compile(module, file, "exec", flags=flags, dont_inherit=True), namespace)
    try:
        yield
    finally:
        for name in added:
            namespace.pop(name, None)


def _new_decorators(
    old: ast.Module, new: ast.Module
) -> Iterator[tuple[tuple[str, ...], list[ast.expr]]]:
    """Yield (path, decorators) for each function or method with new outermost decorators.

    The path is ("Net", "forward"); the decorators are the new ones, innermost first. They may stand
    below `staticmethod`.
    """
    known, last = (dict(_functions_by_path(tree.body)) for tree in (old, new))  # the last of a name
    for path, function in last.items():
        if path in known:
            old_list, new_list = (f.decorator_list for f in (known[path], function))
            if _is_static(old_list) and _is_static(new_list):
                old_list, new_list = old_list[1:], new_list[1:]
            above = len(new_list) - len(old_list)
            if above > 0 and [*map(ast.dump, old_list)] == [*map(ast.dump, new_list[above:])]:
                yield path, new_list[:above][::-1]


def _is_static(decorators: Sequence[ast.expr]) -> bool:
    return bool(decorators) and ast.unparse(decorators[0]) == "staticmethod"


def _functions_by_path(
    body: Sequence[ast.stmt], outer: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], ast.FunctionDef]]:
    for one in body:
        if isinstance(one, ast.FunctionDef):
            yield (*outer, one.name), one
        elif isinstance(one, ast.ClassDef):
            yield from _functions_by_path(one.body, (*outer, one.name))


@contextmanager
def _decorate(
    namespace: dict[str, object], path: Sequence[str], decorators: Sequence[CodeType]
) -> Iterator[NewDecorators | None]:
    """Inside the block, replace the function at `path` by its decorated form.

    A path is ("Net", "forward"); `decorators` are expressions, innermost first. Modules that
    imported the function get the new one, too. Yields None if there is no function.
    """
    owner: Any = None
    for name in path[:-1]:
        owner = namespace.get(name) if owner is None else vars(owner).get(name)
        if not isinstance(owner, type):
            yield None
            return
    name = path[-1]
    bound: Any = (namespace if owner is None else vars(owner)).get(name)
    before: Any = bound.__func__ if isinstance(bound, staticmethod) else bound
    if not callable(before):
        yield None
        return
    after = before
    for decorator in decorators:
        after = eval(decorator, namespace)(after)
    holders = [vars(m) for m in tuple(sys.modules.values()) if isinstance(m, ModuleType)]
    spaces = [one for one in (namespace, *holders) if owner is None and one.get(name) is before]
    for space in spaces:
        space[name] = after
    if owner is not None:
        setattr(owner, name, after if bound is before else staticmethod(after))
    try:
        yield NewDecorators(before, after, tuple(decorators))
    finally:
        for space in spaces:
            space[name] = before
        if owner is not None:
            setattr(owner, name, bound)


def _bound_names(statement: ast.stmt) -> set[str]:
    """Return the names that an import, a definition or an assignment binds."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Assign):
        return {target.id for target in statement.targets if isinstance(target, ast.Name)}
    return set()


@contextmanager
def _override_linecache(file: str, text: str) -> Iterator[None]:
    """Make `linecache`, which readers of source use, return `text` for `file` until exit."""
    before = linecache.cache.get(file)
    lines = text.splitlines(keepends=True)
    linecache.cache[file] = (len(text), None, lines, file)  # without a time it is never checked
    try:
        yield
    finally:
        linecache.cache.pop(file, None)
        if before is not None:
            linecache.cache[file] = before
