"""Normal form of source, and removal of code that an edit made invalid or unreachable."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator

import libcst as cst
import torch

from fullgraph.compiler.sources import first_line
from fullgraph.minifier.emit.spacing import Definition, space_definitions
from fullgraph.minifier.reduce.source.entry_point import EntryPoint, find_entry
from fullgraph.minifier.reduce.source.source_tree import strip_last_comma
from fullgraph.minifier.reduce.source.unbound_names import NameUses, find_names


def normalize(text: str) -> str:
    """Return `text` without comments, with each statement on a line of its own.

    Raises libcst.ParserSyntaxError.
    """
    module = cst.parse_module(text)
    lined = module.visit(_OneLine())
    assert isinstance(lined, cst.Module)
    return space_definitions(lined.with_changes(header=(), footer=()).code)


def drop_unbound(text: str, before: NameUses) -> str | None:
    """Return an edited text without the statements that read a name which the edit left unbound.

    `before` are the names of the text before the edit. None if `text` is invalid Python, or if such
    a statement is part of the entry point.
    """
    while True:
        try:
            with warnings.catch_warnings():  # a candidate may compare what nobody would
                warnings.simplefilter("ignore")
                compile(text, "<candidate>", "exec", dont_inherit=True)
                tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            return None
        lost = {use.statement for use in find_names(tree).lost(before)}
        if not lost:
            return text
        found = find_entry(tree)
        if found is not None and any(_contains_entry(one, found) for one in lost):
            return None
        text = _without_statements(text, tree, lost)


def drop_unreachable(text: str) -> str:
    """Return `text` without definitions, imports and constants that its entry point does not need.

    Returns `text` itself if it has no entry point.
    """
    tree = ast.parse(text)
    found = find_entry(tree)
    if found is None:
        return text
    mentions = {statement: _names_mentioned(statement) for statement in tree.body}
    waiting = [s for s in tree.body if s in found.statements or not _names_only_bound(s)]
    kept = set(waiting)
    wanted: set[str] = set()
    while waiting:
        wanted |= mentions[waiting.pop()]
        for statement in tree.body:
            if statement not in kept and wanted & set(_names_only_bound(statement)):
                kept.add(statement)
                waiting.append(statement)
    lines = text.split("\n")
    for statement in tree.body:
        if statement in kept and isinstance(statement, ast.Import | ast.ImportFrom):
            used = [a for a in statement.names if _bound_name(a) in wanted or a.name == "*"]
            if used and len(used) < len(statement.names):
                statement.names = used
                lines[statement.lineno - 1] = ast.unparse(statement)
    text = "\n".join(lines)
    gone = {s for s in tree.body if s not in kept} | set(_unmentioned_methods(tree, kept))
    return _without_statements(text, tree, gone) if gone else text


def _without_statements(text: str, tree: ast.Module, gone: Iterable[ast.stmt]) -> str:
    """Return `text` without the statements `gone`; `pass` replaces the last one of a block."""
    gone = set(gone)
    lines: list[str | None] = list(text.split("\n"))
    for block in _statement_lists(tree):
        going = [statement for statement in block if statement in gone]
        for statement in going:
            start, end = first_line(statement) - 1, statement.end_lineno or 0
            lines[start:end] = [None] * (end - start)
        if going and len(going) == len(block) and block is not tree.body:
            lines[first_line(going[0]) - 1] = " " * going[0].col_offset + "pass"
    return "\n".join(line for line in lines if line is not None)


def _statement_lists(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """Yield each list of statements in a module (bodies and `else` branches), inner ones first."""
    found = []
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block:
                found.append(block)
    return reversed(found)


def _contains_entry(statement: ast.stmt, found: EntryPoint) -> bool:
    """Return whether a statement contains a statement of the entry point."""
    return any(one in found.statements for one in ast.walk(statement))


def _names_mentioned(node: ast.AST) -> set[str]:
    """Return the names in a node, and its strings, because a string may name a function."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} | {
        n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }


def _names_only_bound(statement: ast.stmt) -> list[str]:
    """Return the names that a definition, import or assignment binds: ["x"] for `x = 1`.

    [] for other statements, and if the statement may have another effect, as `x = f()` has.
    """
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [] if statement.decorator_list and _may_register(statement) else [statement.name]
        case ast.Import() | ast.ImportFrom():
            bound = [_bound_name(alias) for alias in statement.names]
            return [] if {"*", "annotations"} & set(bound) else bound
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_pure(value):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if _is_pure(value):
            return [name]
    return []


def _may_register(statement: Definition) -> bool:
    """Return whether a decorator of a function or class may register it, as `@app.route` does.

    False if all decorators are known ones, such as `dataclass`.
    """
    plain = ("dataclass", "no_grad", "inference_mode", "cache", "lru_cache", "wraps", "compile")
    for one in statement.decorator_list:
        called = one.func if isinstance(one, ast.Call) else one
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name not in plain:
            return True
    return False


def _is_pure(value: ast.expr | None) -> bool:
    """Return whether evaluating an expression has no side effect: it has no call. True for None."""
    calls = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom)
    return value is None or not any(isinstance(node, calls) for node in ast.walk(value))


def _bound_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _unmentioned_methods(tree: ast.Module, kept: set[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the methods that neither the statements `kept` mention nor torch calls.

    Only methods of the classes in `kept` are considered.
    """
    said: set[str] = set()
    for statement in kept:
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute):
                said.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                said.add(node.value)
    for kind in kept:
        if not isinstance(kind, ast.ClassDef):
            continue
        known = {*dir(torch.nn.Module), "backward", "setup_context", "vmap", "jvp"}
        for method in kind.body:
            if isinstance(method, ast.FunctionDef) and method.name not in said | known:
                yield method


class _OneLine(cst.CSTTransformer):
    """Transformer that puts each statement on one line, and drops comments and blank lines."""

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine]:
        lines = [
            cst.SimpleStatementLine([one.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])
            for one in updated_node.body
        ]
        return lines[0] if len(lines) == 1 else cst.FlattenSentinel(lines)

    def leave_SimpleStatementSuite(
        self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite
    ) -> cst.IndentedBlock:
        smalls = [
            one.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) for one in updated_node.body
        ]
        return cst.IndentedBlock([cst.SimpleStatementLine([one]) for one in smalls])

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        return updated_node.with_changes(header=cst.TrailingWhitespace(), footer=(), indent=None)

    def leave_ParenthesizedWhitespace(
        self, original_node: cst.ParenthesizedWhitespace, updated_node: cst.ParenthesizedWhitespace
    ) -> cst.SimpleWhitespace:
        return cst.SimpleWhitespace(" ")

    def leave_SimpleWhitespace(
        self, original_node: cst.SimpleWhitespace, updated_node: cst.SimpleWhitespace
    ) -> cst.SimpleWhitespace:
        return cst.SimpleWhitespace(" ") if "\n" in updated_node.value else updated_node

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.FlattenSentinel[cst.CSTNode] | cst.RemovalSentinel:
        new = super().on_leave(original_node, updated_node)
        if not isinstance(new, cst.CSTNode):
            return new
        no = cst.SimpleWhitespace("")
        if hasattr(new, "leading_lines"):
            new = new.with_changes(leading_lines=())
        if hasattr(new, "lines_after_decorators"):
            new = new.with_changes(lines_after_decorators=())
        if isinstance(new, cst.LeftParen | cst.LeftSquareBracket | cst.LeftCurlyBrace):
            new = new.with_changes(whitespace_after=no)
        if isinstance(new, cst.RightParen | cst.RightSquareBracket | cst.RightCurlyBrace):
            new = new.with_changes(whitespace_before=no)
        if isinstance(new, cst.Call):
            new = new.with_changes(whitespace_before_args=no)
        if isinstance(new, cst.Arg):
            new = new.with_changes(whitespace_after_arg=no)
        if isinstance(new, cst.FunctionDef):
            new = new.with_changes(whitespace_before_params=no)
        return strip_last_comma(new)
