"""A live function with edited source: same object, globals, cells, file name and positions.

Whoever holds the function (a class, a hook, a decorator's closure, an instance) meets the edited
code, because only `function.__code__` is exchanged. A function is touched only when its running
code equals, byte for byte, what its source compiles to.
"""

from __future__ import annotations
import __future__

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FunctionType

from fullgraph.compiler.events import Position
from fullgraph.compiler.sources.live_functions import find_live_functions
from fullgraph.compiler.sources.source import Source, first_line, read_source

ORIGINAL = "_fullgraph_original"
"""In an edit's text: the expression or statement that stood there."""
ORIGINAL_VALUE = "_fullgraph_original_value"
"""In an edit's text: the right-hand side of the assignment that stood there."""

_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag


@dataclass(frozen=True)
class FunctionEdit:
    """Put `text` (Python) where the node at `at` stands; `objects` become globals for it.

    An expression is replaced by an expression, a statement by any number of statements. Names of
    `objects` must not begin with two underscores, which a class would mangle. Inner nodes go
    first; of several edits of one node the later sees the earlier's result as `ORIGINAL`.
    """

    at: Position
    text: str
    objects: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class RefusedEdit:
    """An edit that was not made, and why: a clause that fits after "because"."""

    edit: FunctionEdit
    reason: str


@dataclass(frozen=True)
class EditedFunctions:
    """Functions that run edited code inside `edit_functions`, and the refused edits."""

    functions: tuple[FunctionType, ...]
    refused: tuple[RefusedEdit, ...]


@contextmanager
def edit_functions(edits: Iterable[FunctionEdit]) -> Iterator[EditedFunctions]:
    """Make the edits in every live function that holds them; undo all on exit.

    An edit that cannot be made is refused with a reason, the others are made all the same.
    Functions that edited code created meanwhile get their own code back too.
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
        twins, refusals = _edited(file, group, found[file])
        refused += refusals
        objects = {name: value for edit in group for name, value in edit.objects.items()}
        for function in found[file]:
            old, new = twins.get(code_identity(function.__code__), (None, None))
            if old is not None and new is not None and old.co_freevars == new.co_freevars:
                swaps.append((function, new))
                namespace = function.__globals__
                names.setdefault(id(namespace), (namespace, {}))[1].update(objects)
        made.update({code_identity(new): old for old, new in twins.values()})
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


CodeIdentity = tuple[CodeType, bytes, str]


def code_identity(code: CodeType) -> CodeIdentity:
    """What makes two codes the same: `==` leaves positions and qualified names out."""
    return code, code.co_linetable, code.co_qualname


def _edited(
    file: str, edits: Sequence[FunctionEdit], functions: Sequence[FunctionType]
) -> tuple[dict[CodeIdentity, tuple[CodeType, CodeType]], list[RefusedEdit]]:
    """The codes of `file` that the edits change, with their edited twins; and what is refused."""
    source = read_source(file, functions[0].__globals__ if functions else None)
    if source is None:
        return {}, [RefusedEdit(edit, "its source cannot be read") for edit in edits]
    flags = functions[0].__code__.co_flags & _FUTURE if functions else 0
    running = {code_identity(function.__code__) for function in functions}
    refused: list[RefusedEdit] = []
    blocks: dict[int, list[tuple[ast.AST, FunctionEdit]]] = {}
    for edit in edits:
        node = source.node(edit.at)
        reason, block = _check(source, node, edit)
        if reason:
            refused.append(RefusedEdit(edit, reason))
        elif node is not None:
            blocks.setdefault(block, []).append((node, edit))
    twins: dict[CodeIdentity, tuple[CodeType, CodeType]] = {}
    for block, group in blocks.items():
        old = _compiled(source, block, source.tree.body[block], flags)
        try:
            new = _compiled(source, block, _rewritten(source, block, group), flags)
        except (SyntaxError, ValueError) as error:
            refused += [
                RefusedEdit(edit, f"the new code does not compile: {error}") for _, edit in group
            ]
            continue
        pairs = {code_identity(a): (a, b) for a, b in _pairs(old, new)}
        for node, edit in group:
            reason = _unreached(source, node, pairs, running)
            if reason:
                refused.append(RefusedEdit(edit, reason))
        twins.update({key: (a, b) for key, (a, b) in pairs.items() if code_identity(b) != key})
    return twins, refused


def _check(source: Source, node: ast.AST | None, edit: FunctionEdit) -> tuple[str, int]:
    """Why `node` cannot be edited ("" if it can), and its top-level statement's index."""
    if node is None:
        return "no expression stands at this place in the source", -1
    if isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return "it is the target of an assignment", -1
    try:
        ast.parse(edit.text, mode="eval" if isinstance(node, ast.expr) else "exec")
    except SyntaxError as error:
        return f"the new code does not compile: {error}", -1
    if not any(_is_function(around) for around in source.around(node)):
        return "it is not inside a function", -1
    top: ast.AST = node
    while not isinstance(parent := source.parents[top], ast.Module):
        top = parent
    return "", source.tree.body.index(top)  # type: ignore[arg-type]


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def _unreached(
    source: Source,
    node: ast.AST,
    pairs: Mapping[CodeIdentity, tuple[CodeType, CodeType]],
    running: set[CodeIdentity],
) -> str:
    """Why no live function is known to run the code around `node`; "" if one does."""
    lines = {first_line(f) for f in source.around(node) if _is_function(f)}  # type: ignore[arg-type]
    for key, (old, new) in pairs.items():
        if old.co_firstlineno in lines and key in running:
            if old.co_freevars != new.co_freevars:
                return "the edit changes which variables the function closes over"
            return ""
    if any(code.co_firstlineno in lines for code, _, _ in running):
        return "its source is not what runs: changed on disk, or rewritten on import"
    return "no live function runs this code"


def _compiled(source: Source, block: int, statement: ast.stmt, flags: int) -> CodeType:
    """The module's code with `statement` at top-level index `block`, without other definitions.

    Module-level imports stay: since 3.11 CPython calls `name.attribute()` otherwise when the
    module imports `name`.
    """
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    body = [
        statement if index == block else other
        for index, other in enumerate(source.tree.body)
        if index == block or not isinstance(other, definitions)
    ]
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(ast.Module(body, []), source.file, "exec", flags=flags, dont_inherit=True)
    assert isinstance(code, CodeType)
    return code


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Each code inside `old` with the one that took its place inside `new`."""
    yield old, new
    groups: dict[tuple[str, int], tuple[list[CodeType], list[CodeType]]] = {}
    for side, code in enumerate((old, new)):
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                name = inner.co_name, inner.co_firstlineno
                groups.setdefault(name, ([], []))[side].append(inner)
    for olds, news in groups.values():
        if len(olds) == len(news):
            matches = list(zip(olds, news, strict=True))
        else:  # an edit took one of several lambdas of a line away: go by where they start
            starts = {_start(code): code for code in news}
            matches = [(code, starts[_start(code)]) for code in olds if _start(code) in starts]
        for pair in matches:
            yield from _pairs(*pair)


def _start(code: CodeType) -> tuple[int, int]:
    places = [
        (line, column)
        for line, _, column, end in code.co_positions()
        if line is not None and column is not None and end is not None and end > column
    ]
    return min(places, default=(code.co_firstlineno, 0))


def _rewritten(
    source: Source, block: int, edits: Sequence[tuple[ast.AST, FunctionEdit]]
) -> ast.stmt:
    """A fresh copy of a top-level statement with the edits made."""
    fresh = ast.parse(source.text, source.file).body[block]
    wanted = {node for node, _ in edits} | {source.parents[node] for node, _ in edits}
    copies: dict[ast.AST, ast.AST] = {}
    order: dict[ast.AST, int] = {}
    old_walk, new_walk = ast.walk(source.tree.body[block]), ast.walk(fresh)
    for index, (old, new) in enumerate(zip(old_walk, new_walk, strict=True)):
        if old in wanted:
            copies[old], order[old] = new, index
    now = dict(copies)
    for node, edit in sorted(edits, key=lambda pair: -order[pair[0]]):
        replacement = _replacement(now[node], edit)
        _put(copies[source.parents[node]], now[node], replacement)
        now[node] = replacement[0]
    return fresh


def _put(parent: ast.AST, old: ast.AST, new: list[ast.AST]) -> None:
    for name, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, name, new[0])
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if item is old:
                    value[index : index + 1] = new
                    break


def _replacement(node: ast.AST, edit: FunctionEdit) -> list[ast.AST]:
    """What stands where `node` stood.

    A node that the edit drops stays in the dead arm of a constant condition: the compiler leaves
    it out, but still counts its variables, so closures keep their cells and generators stay
    generators.
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
            body = ast.IfExp(_true(node), body, node)
        return [ast.copy_location(body, node)]
    assert isinstance(whole, ast.Module) and isinstance(node, ast.stmt)
    if substitute.used:
        return list(whole.body)
    return [ast.copy_location(ast.If(_true(node), whole.body, [node]), node)]


def _true(node: ast.AST) -> ast.expr:
    return ast.copy_location(ast.Constant(True), node)


class _Substitute(ast.NodeTransformer):
    """Puts the original node where an edit's text names it; tells whether it was named."""

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
