"""Parsed source of running code, and the syntax node at a position."""

from __future__ import annotations

import ast
import functools
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from fullgraph.compiler.events import Position

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ComprehensionNode = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True, eq=False)
class Source:
    """Parsed source file, with lookups from a node to its position and from a position to nodes.

    `parents` maps each node but the module to its parent.
    """

    file: str
    text: str
    tree: ast.Module
    parents: dict[ast.AST, ast.AST]
    starts: dict[tuple[int, int], tuple[ast.AST, ...]]
    """Nodes by (line, column) of their start, outer nodes first."""

    def position(self, node: ast.AST, function: str = "") -> Position:
        """Return the span of an expression or a statement as a position in `function`."""
        return Position(
            self.file,
            node.lineno,  # type: ignore[attr-defined]
            node.col_offset,  # type: ignore[attr-defined]
            node.end_lineno,  # type: ignore[attr-defined]
            node.end_col_offset,  # type: ignore[attr-defined]
            function,
        )

    def segment(self, node: ast.AST) -> str:
        """Return the source text of a node; "" for a node without a position."""
        if not isinstance(node, ast.expr | ast.stmt | ast.pattern):
            return ""
        assert node.end_lineno is not None
        lines = [line.encode() for line in self.lines[node.lineno - 1 : node.end_lineno]]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return b"\n".join(lines).decode()

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the ancestors of `node`, innermost first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def node(self, position: Position) -> ast.AST | None:
        """Return the outermost expression whose span is `position`, else the outermost statement.

        An end of None matches any end. Returns None if no span matches or the position has no
        column.
        """
        matching = [
            node
            for node in self.starts.get((position.line, position.column), ())  # type: ignore[arg-type]
            if position.end_column in (None, node.end_col_offset)  # type: ignore[attr-defined]
            and position.end_line in (None, node.end_lineno)  # type: ignore[attr-defined]
        ]
        expressions = [node for node in matching if isinstance(node, ast.expr)]
        return next(iter(expressions + matching), None)

    def statement_at(self, line: int) -> ast.stmt | None:
        """Return the innermost statement that covers a line; decorators belong to the statement."""
        covering = [s for s in self.statements if first_line(s) <= line <= (s.end_lineno or 0)]
        return covering[-1] if covering else None

    @functools.cached_property
    def lines(self) -> list[str]:
        """Lines of the text, without line ends."""
        return self.text.split("\n")

    @functools.cached_property
    def statements(self) -> list[ast.stmt]:
        """All statements of the file, a statement before those inside it."""
        return [node for node in self.parents if isinstance(node, ast.stmt)]


def read_source(file: str, namespace: dict[str, object] | None = None) -> Source | None:
    """Return the parsed source of a file or notebook cell; None if it cannot be read or parsed.

    `namespace` are the globals of a function of that file. The loader in them can give the text of
    a module that is not on disk.
    """
    lines = linecache.getlines(file, namespace)
    if not lines and namespace is None and not file.startswith("<"):  # a module in a zip
        modules = [m for m in tuple(sys.modules.values()) if getattr(m, "__file__", "") == file]
        lines = linecache.getlines(file, vars(modules[0])) if modules else []
    return _parse_source(file, "".join(lines)) if lines else None


@functools.lru_cache(maxsize=64)
def _parse_source(file: str, text: str) -> Source | None:
    """Return the parsed source; None if `text` is not valid Python."""
    try:
        tree = ast.parse(text, file)
    except (SyntaxError, ValueError, RecursionError):
        return None
    parents: dict[ast.AST, ast.AST] = {}
    starts: dict[tuple[int, int], tuple[ast.AST, ...]] = {}
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        for start in _instruction_starts(node):
            starts[start] = (*starts.get(start, ()), node)
        for child in ast.iter_child_nodes(node):
            if child._fields or child._attributes:  # not `Load()` and other shared nodes
                parents[child] = node
                left.append(child)
    return Source(file, text, tree, parents, starts)


def _instruction_starts(node: ast.AST) -> list[tuple[int, int]]:
    """Return the (line, column) pairs at which CPython may locate instructions of `node`.

    If a method's name is on a later line than its object, CPython since 3.10 locates the call at
    the name (`update_start_location_to_match_attr` in its compiler).
    """
    if not isinstance(node, ast.expr | ast.stmt | ast.pattern):
        return []
    starts = [(node.lineno, node.col_offset)]
    attribute = node.func if isinstance(node, ast.Call) else node
    if isinstance(attribute, ast.Attribute) and attribute.lineno != attribute.end_lineno:
        assert attribute.end_lineno is not None and attribute.end_col_offset is not None
        column = attribute.end_col_offset - len(attribute.attr.encode())
        starts.append((attribute.end_lineno, column))
    return starts


def first_line(node: ast.stmt | FunctionNode | ComprehensionNode) -> int:
    """Return `co_firstlineno` of the code of `node`: the line of its first decorator."""
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])
