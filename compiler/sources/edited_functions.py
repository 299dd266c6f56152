"""Live functions that run edited source: same object, globals, cells, file name and positions.

Only `function.__code__` is replaced, so every holder of the function (a class, a hook, a closure,
an instance) calls the edited code. A function is edited only if its running code equals, byte for
byte, what its source compiles to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import TypeGuard

from fullgraph.compiler.events import Position
from fullgraph.compiler.sources.code_objects import (
    CodeIdentity,
    CodePair,
    code_identity,
    compile_module,
    future_flags,
    pair_codes,
)
from fullgraph.compiler.sources.live_functions import find_live_functions
from fullgraph.compiler.sources.source import FunctionNode, Source, first_line, read_source

ORIGINAL = "_fullgraph_original"
"""Name that stands in an edit's text for the replaced expression or statement."""
ORIGINAL_VALUE = "_fullgraph_original_value"
"""Name that stands in an edit's text for the right-hand side of the replaced assignment."""


@dataclass(frozen=True)
class FunctionEdit:
    """Replacement of the node at `at` by the Python source `text`, with `objects` as globals.

    In `text`, the name `ORIGINAL` is the replaced node. An expression is replaced by an expression,
    a statement by any number of statements. Inner nodes are replaced first; if several edits
    replace one node, `ORIGINAL` in a later one is the result of the earlier ones. Names of
    `objects` must not begin with two underscores, which a class would mangle.
    """

    at: Position
    text: str
    objects: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class RefusedEdit:
    """An edit that was not made, with the reason: a clause that fits after "because"."""

    edit: FunctionEdit
    reason: str


@dataclass(frozen=True)
class EditedFunctions:
    """Functions that run edited code inside `edit_functions`, and the refused edits."""

    functions: tuple[FunctionType, ...]
    refused: tuple[RefusedEdit, ...]


@contextmanager
def edit_functions(edits: Iterable[FunctionEdit]) -> Iterator[EditedFunctions]:
    """Apply edits to every live function that contains them; restore all functions on exit.

    An edit that cannot be made is refused with a reason; the others are still applied. Functions
    that edited code created inside the block get their original code, too.
    """
    files: dict[str, list[FunctionEdit]] = {}
    for edit in edits:
        files.setdefault(edit.at.file, []).append(edit)
    refused: list[RefusedEdit] = []
    swaps: list[tuple[FunctionType, CodeType]] = []
    made: dict[CodeIdentity, CodeType] = {}
    names: dict[int, tuple[dict[str, object], dict[str, object]]] = {}
    found = find_live_functions(files)
    for file, group in files.items():
        new_codes, refusals = _compile_edits(file, group, found[file])
        refused += refusals
        objects = {name: value for edit in group for name, value in edit.objects.items()}
        for function in found[file]:
            old, new = new_codes.get(code_identity(function.__code__), (None, None))
            if old is not None and new is not None and old.co_freevars == new.co_freevars:
                swaps.append((function, new))
                namespace = function.__globals__
                names.setdefault(id(namespace), (namespace, {}))[1].update(objects)
        made.update({code_identity(new): old for old, new in new_codes.values()})
    originals = [(function, function.__code__) for function, _ in swaps]
    try:
        for namespace, objects in names.values():
            namespace.update(objects)
        for function, code in swaps:
            function.__code__ = code
        yield EditedFunctions(tuple(f for f, _ in swaps), tuple(refused))
    finally:
        for function, code in originals:
            function.__code__ = code
        for function in (f for fs in find_live_functions(files).values() for f in fs):
            function.__code__ = made.get(code_identity(function.__code__), function.__code__)
        for namespace, objects in names.values():
            for name in objects:
                namespace.pop(name, None)


def _compile_edits(
    file: str, edits: Sequence[FunctionEdit], functions: list[FunctionType]
) -> tuple[dict[CodeIdentity, CodePair], list[RefusedEdit]]:
    """Return (old code, new code) for each code object that the edits change, and refused edits.

    The pairs are by the identity of the old code. `functions` are the live functions of `file`.
    """
    source = read_source(file, functions[0].__globals__ if functions else None)
    if source is None:
        return {}, [RefusedEdit(edit, "its source cannot be read") for edit in edits]
    flags = future_flags(functions)
    running = {code_identity(function.__code__) for function in functions}
    refused: list[RefusedEdit] = []
    blocks: dict[int, list[tuple[ast.AST, FunctionEdit]]] = {}
    for edit in edits:
        node = source.node(edit.at)
        reason, block = _check_edit(source, node, edit)
        if reason:
            refused.append(RefusedEdit(edit, reason))
        elif node is not None:
            blocks.setdefault(block, []).append((node, edit))
    new_codes: dict[CodeIdentity, CodePair] = {}
    for block, group in blocks.items():
        old, alone = _compile_as_run(source, block, flags, running)
        try:
            edited = _apply_edits(source, block, group)
            new = _compile_statement(source, block, edited, flags, alone)
        except (SyntaxError, ValueError) as error:
            refused += [
                RefusedEdit(edit, f"the new code does not compile: {error}") for _, edit in group
            ]
            continue
        pairs = {code_identity(a): (a, b) for a, b in _code_pairs(old, new)}
        for node, edit in group:
            reason = _find_reason_not_run(source, node, pairs, running)
            if reason:
                refused.append(RefusedEdit(edit, reason))
        new_codes.update({key: (a, b) for key, (a, b) in pairs.items() if code_identity(b) != key})
    return new_codes, refused


def _check_edit(source: Source, node: ast.AST | None, edit: FunctionEdit) -> tuple[str, int]:
    """Return (reason why `node` cannot be edited, index of its top-level statement in the file).

    The reason is "" if the node can be edited, and the index is -1 if it cannot.
    """
    if node is None:
        return "no expression stands at this place in the source", -1
    if isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return "it is the target of an assignment", -1
    try:
        ast.parse(edit.text, mode="eval" if isinstance(node, ast.expr) else "exec")
    except SyntaxError as error:
        return f"the new code does not compile: {error}", -1
    if not any(_is_function(around) for around in source.ancestors(node)):
        return "it is not inside a function", -1
    top: ast.AST = node
    while not isinstance(parent := source.parents[top], ast.Module):
        top = parent
    return "", next(i for i, one in enumerate(source.tree.body) if one is top)


def _is_function(node: ast.AST) -> TypeGuard[FunctionNode]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def _find_reason_not_run(
    source: Source,
    node: ast.AST,
    pairs: Mapping[CodeIdentity, CodePair],
    running: set[CodeIdentity],
) -> str:
    """Return why no live function is known to run the code around `node`; "" if one does.

    `pairs` maps each old code object to (old code, new code). `running` holds the identities of
    the code objects of live functions.
    """
    lines = {first_line(f) for f in source.ancestors(node) if _is_function(f)}
    for key, (old, new) in pairs.items():
        if old.co_firstlineno in lines and key in running:
            if old.co_freevars != new.co_freevars:
                return "the edit changes which variables the function closes over"
            return ""
    if any(code.co_firstlineno in lines for code, _, _ in running):
        return "its source is not what runs: changed on disk, or rewritten on import"
    return "no live function runs this code"


def _compile_as_run(
    source: Source, place: int, flags: int, running: set[CodeIdentity]
) -> tuple[CodeType, bool]:
    """Compile the top-level statement at index `place` in the way that gives the running code.

    Returns the code, and whether the statement was compiled alone, as IPython does. `running` holds
    the identities of the code objects of live functions.
    """
    statement = source.tree.body[place]
    for alone in (False, True):
        code = _compile_statement(source, place, statement, flags, alone)
        if any(code_identity(inner) in running for inner, _ in _code_pairs(code, code)):
            return code, alone
    return _compile_statement(source, place, statement, flags, False), False


def _compile_statement(
    source: Source, place: int, statement: ast.stmt, flags: int, alone: bool
) -> CodeType:
    """Return the code of the module with `statement` at top-level index `place`.

    Other functions and classes of the module are left out; with `alone`, all other statements are.
    """
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    body = [
        statement if index == place else other
        for index, other in enumerate(source.tree.body)
        if index == place or not (alone or isinstance(other, definitions))
    ]
    return compile_module(ast.Module(body, []), source.file, flags)[0]


def _code_pairs(old: CodeType, new: CodeType) -> Iterator[CodePair]:
    """Yield (`old`, `new`), then pairs of code objects inside them.

    Code objects with the same name and first line make a pair.
    """
    yield old, new
    yield from pair_codes([old], [new], lambda c: (c.co_name, c.co_firstlineno), _match_by_start)


def _match_by_start(olds: list[CodeType], news: list[CodeType]) -> list[CodePair]:
    """Pair code objects that start at the same position.

    This is for several lambdas on one line of which an edit removed one.
    """
    starts = {_start_of(code): code for code in news}
    return [(code, starts[_start_of(code)]) for code in olds if _start_of(code) in starts]


def _start_of(code: CodeType) -> tuple[int, int]:
    """Return the first (line, column) among a code object's instructions."""
    places = [
        (line, column)
        for line, _, column, end in code.co_positions()
        if line is not None and column is not None and end is not None and end > column
    ]
    return min(places, default=(code.co_firstlineno, 0))


def _apply_edits(
    source: Source, place: int, edits: Sequence[tuple[ast.AST, FunctionEdit]]
) -> ast.stmt:
    """Return a copy of the top-level statement at index `place` with the edits applied."""
    fresh = ast.parse(source.text, source.file).body[place]
    wanted = {node for node, _ in edits} | {source.parents[node] for node, _ in edits}
    copies: dict[ast.AST, ast.AST] = {}
    order: dict[ast.AST, int] = {}
    old_walk, new_walk = ast.walk(source.tree.body[place]), ast.walk(fresh)
    for index, (old, new) in enumerate(zip(old_walk, new_walk, strict=True)):
        if old in wanted:
            copies[old], order[old] = new, index
    now = dict(copies)
    for node, edit in sorted(edits, key=lambda pair: -order[pair[0]]):
        replacement = _replace_node(now[node], edit)
        _replace_child(copies[source.parents[node]], now[node], replacement)
        now[node] = replacement[0]
    return fresh


def _replace_child(parent: ast.AST, old: ast.AST, new: list[ast.AST]) -> None:
    """Replace the child `old` of `parent` by the nodes `new`."""
    for name, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, name, new[0])
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if item is old:
                    value[index : index + 1] = new
                    break


def _replace_node(node: ast.AST, edit: FunctionEdit) -> list[ast.AST]:
    """Return the nodes that replace `node`.

    If the edit's text does not contain the name `ORIGINAL`, the node is kept in a branch that never
    runs. CPython emits no code for it but still counts its variables, so closures keep their cells
    and generators stay generators.
    """
    whole: ast.AST
    if isinstance(node, ast.expr):
        whole = ast.parse(edit.text, mode="eval")
    else:
        whole = ast.parse(edit.text)
    for new in ast.walk(whole):
        if isinstance(new, ast.expr | ast.stmt | ast.keyword):
            ast.copy_location(new, node)
    substitute = _Substitute(node)
    whole = substitute.visit(whole)
    if isinstance(whole, ast.Expression):
        body: ast.expr = whole.body
        assert isinstance(node, ast.expr)
        if not substitute.used:
            body = ast.IfExp(_true_at(node), body, node)
        return [ast.copy_location(body, node)]
    assert isinstance(whole, ast.Module) and isinstance(node, ast.stmt)
    if substitute.used:
        return list(whole.body)
    return [ast.copy_location(ast.If(_true_at(node), whole.body, [node]), node)]


def _true_at(node: ast.AST) -> ast.expr:
    """Return a node for the constant `True`, with the position of `node`."""
    return ast.copy_location(ast.Constant(True), node)


class _Substitute(ast.NodeTransformer):
    """Transformer that puts the original node where an edit's text has the name `ORIGINAL`.

    `ORIGINAL_VALUE` is replaced by the right-hand side of the original assignment.
    """

    def __init__(self, original: ast.AST) -> None:
        self.original = original
        self.used = False

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == ORIGINAL:
            self.used = True
            return self.original
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == ORIGINAL:
            self.used = True
            return self.original
        if node.id == ORIGINAL_VALUE:
            return self.original.value  # type: ignore[attr-defined]
        return node
