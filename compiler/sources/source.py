"""The source text of running code, and the syntax node that a position means."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator
from dataclasses import dataclass

from fullgraph.compiler.events import Position

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ComprehensionNode = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True, eq=False)
class Source:
    """One parsed file. `parents` gives the node around a node; the module has none."""

    file: str
    text: str
    tree: ast.Module
    parents: dict[ast.AST, ast.AST]
    starts: dict[tuple[int, int], tuple[ast.AST, ...]]
    """Nodes by (line, column) of their start, outer nodes first."""

    def position(self, node: ast.AST, function: str = "") -> Position:
        """The whole span of an expression or a statement."""
        return Position(
            self.file,
            node.lineno,  # type: ignore[attr-defined]
            node.col_offset,  # type: ignore[attr-defined]
            node.end_lineno,  # type: ignore[attr-defined]
            node.end_col_offset,  # type: ignore[attr-defined]
            function,
        )

    def segment(self, node: ast.AST) -> str:
        """The source text of a node; "" if it has no place of its own."""
        if not isinstance(node, ast.expr | ast.stmt | ast.pattern):
            return ""
        assert node.end_lineno is not None
        lines = [line.encode() for line in self.lines[node.lineno - 1 : node.end_lineno]]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return b"\n".join(lines).decode()

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes that hold `node`, from the inside out."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def node(self, position: Position) -> ast.AST | None:
        """The node whose span is `position`: of several the outermost, expressions first.

        An end that is None fits any. None without a column, and where no span fits.
        """
        fitting = [
            node
            for node in self.starts.get((position.line, position.column), ())  # type: ignore[arg-type]
            if position.end_column in (None, node.end_col_offset)  # type: ignore[attr-defined]
            and position.end_line in (None, node.end_lineno)  # type: ignore[attr-defined]
        ]
        expressions = [node for node in fitting if isinstance(node, ast.expr)]
        return next(iter(expressions + fitting), None)

    def statement_at(self, line: int) -> ast.stmt | None:
        """The innermost statement that covers a line, decorators included."""
        covering = [s for s in self.statements if first_line(s) <= line <= (s.end_lineno or 0)]
        return covering[-1] if covering else None

    @functools.cached_property
    def lines(self) -> list[str]:
        """The lines of the text, without their ends."""
        return self.text.split("\n")

    @functools.cached_property
    def statements(self) -> list[ast.stmt]:
        """Every statement, from the outside in."""
        return [node for node in self.parents if isinstance(node, ast.stmt)]


def read_source(file: str, namespace: dict[str, object] | None = None) -> Source | None:
    """The parsed source of `file`, notebook cells included; None if it cannot be read or parsed.

    `namespace` is the globals of a function of that file: its loader may know the text.
    """
    lines = linecache.getlines(file, namespace)
    return _parsed(file, "".join(lines)) if lines else None


@functools.lru_cache(maxsize=64)
def _parsed(file: str, text: str) -> Source | None:
    try:
        tree = ast.parse(text, file)
    except (SyntaxError, ValueError, RecursionError):
        return None
    parents: dict[ast.AST, ast.AST] = {}
    starts: dict[tuple[int, int], tuple[ast.AST, ...]] = {}
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        for start in _starts(node):
            starts[start] = (*starts.get(start, ()), node)
        for child in ast.iter_child_nodes(node):
            if child._fields or child._attributes:  # not `Load()` and the like, which are shared
                parents[child] = node
                left.append(child)
    return Source(file, text, tree, parents, starts)


def _starts(node: ast.AST) -> list[tuple[int, int]]:
    """Where instructions of `node` may start: at the node, or at the name of a called method.

    Since 3.10 the call of a method that stands on a later line than its object is located at
    the method's name (`update_start_location_to_match_attr` in CPython's compiler).
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
    """The line a code object made from `node` calls its first: that of the first decorator."""
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])
