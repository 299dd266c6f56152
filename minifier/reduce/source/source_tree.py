"""Parsed source texts, and edits of them that can be combined."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

Node = TypeVar("Node", bound=cst.CSTNode)
Replacement = cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]
CurrentNode = Callable[[cst.CSTNode], cst.CSTNode]
"""Returns the state of a node after the other edits."""
Changes = dict[cst.CSTNode, Callable[[CurrentNode], Replacement]]
"""The nodes that an edit replaces, each with the function that returns its replacement."""
Place = tuple[int, int, int, int]
"""Line, column, end line and end column, as in `ast`: columns count bytes."""

_LAYOUT = (
    cst.BaseParenthesizableWhitespace,
    cst.TrailingWhitespace,
    cst.EmptyLine,
    cst.Newline,
    cst.Comment,
)
"""Nodes for whitespace and comments."""


@dataclass(frozen=True, eq=False)
class TreeEdit:
    """A proposed edit of a source text: a replacement for one or more nodes of its syntax tree."""

    changes: Mapping[cst.CSTNode, Callable[[CurrentNode], Replacement]]
    size: int = 1
    """Weight of the edit where a list of edits is split into halves."""


class SourceTree:
    """Syntax tree of a source text, by libcst, with the parent of each node."""

    def __init__(self, text: str) -> None:
        """Raises libcst.ParserSyntaxError."""
        self.text = text
        self.module = cst.parse_module(text)
        walk = _Parents()
        self.module.visit(walk)
        self.parents: Mapping[cst.CSTNode, cst.CSTNode] = walk.parents
        """The parent of each node; the keys are in text order."""

    def nodes_of_kind(self, *kinds: type[Node]) -> list[Node]:
        """Return the nodes of these kinds, in text order."""
        return [node for node in self.parents if isinstance(node, kinds)]

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the ancestors of `node`, innermost first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """Return the innermost function around `node`; None if there is none."""
        return next((one for one in self.ancestors(node) if isinstance(one, cst.FunctionDef)), None)

    def inside(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """Return the descendants of `node`, in text order."""
        walk = _Parents()
        node.visit(walk)
        return [one for one in walk.parents if one is not node]

    def code(self, node: cst.CSTNode) -> str:
        """Return the text of a node."""
        return self.module.code_for_node(node)

    def place(self, node: cst.CSTNode) -> Place | None:
        """Return the position of an expression, without parentheses around it; None if unknown."""
        span = self._ranges.get(node)
        if span is None:
            return None
        start, end = span.start, span.end
        return (
            start.line,
            self._byte_offset(start.line, start.column),
            end.line,
            self._byte_offset(end.line, end.column),
        )

    def with_edits(self, edits: Iterable[TreeEdit]) -> str:
        """Return the text after the edits; if two edits change one node, the first is applied."""
        changes: Changes = {}
        for edit in edits:
            if not any(node in changes for node in edit.changes):
                changes.update(edit.changes)
        paths = {one for node in changes for one in (node, *self.ancestors(node))}
        return self.module.visit(_Edited(changes, paths)).code

    @functools.cached_property
    def _ranges(self) -> Mapping[cst.CSTNode, CodeRange]:
        """The position of each node."""
        wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)
        return wrapper.resolve(PositionProvider)

    @functools.cached_property
    def _lines(self) -> list[str]:
        return self.text.split("\n")

    def _byte_offset(self, line: int, column: int) -> int:
        """Return the column in UTF-8 bytes for a column in characters."""
        text = self._lines[line - 1]
        return column if text.isascii() else len(text[:column].encode())


class _Parents(cst.CSTVisitor):
    """Visitor that records the parent of each node."""

    def __init__(self) -> None:
        super().__init__()
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.stack: list[cst.CSTNode] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _LAYOUT):
            return False
        if self.stack:
            self.parents[node] = self.stack[-1]
        self.stack.append(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if not isinstance(original_node, _LAYOUT):
            self.stack.pop()


class _Edited(cst.CSTTransformer):
    """Transformer that applies changes to a tree: to inner nodes first, then to outer ones."""

    def __init__(
        self,
        changes: Mapping[cst.CSTNode, Callable[[CurrentNode], Replacement]],
        paths: set[cst.CSTNode],
    ) -> None:
        """`paths` are the changed nodes and their ancestors."""
        super().__init__()
        self.changes, self.paths = changes, paths
        self.done: dict[cst.CSTNode, cst.CSTNode] = {}

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node in self.paths

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> Replacement:
        if original_node not in self.paths:
            return updated_node
        self.done[original_node] = strip_last_comma(updated_node)
        if original_node not in self.changes:
            return self.done[original_node]
        new = self.changes[original_node](self.now)
        if isinstance(new, cst.CSTNode):
            self.done[original_node] = new
        return new

    def now(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the state of a node after the changes inside it."""
        return self.done.get(node, node)


def strip_last_comma(node: cst.CSTNode) -> cst.CSTNode:
    """Return `node` without the comma after its last argument or element: `f(x,)` → `f(x)`."""
    for field in ("args", "elements", "params", "names", "bases"):
        items = getattr(node, field, None)
        if isinstance(items, tuple) and items and isinstance(items[-1].comma, cst.Comma):
            last = items[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            return node.with_changes(**{field: (*items[:-1], last)})
    return node


def remove_node(node: cst.CSTNode, size: int = 1) -> TreeEdit:
    """Return the edit that removes a statement, argument, element or decorator.

    `size` is how much code it removes; a list of edits is split where the sizes balance.
    """
    return TreeEdit({node: lambda now: cst.RemoveFromParent()}, size)


def replace_always(new: Replacement) -> Callable[[CurrentNode], Replacement]:
    """Return a change that puts `new` in place of a node; edits inside that node are lost."""
    return lambda now: new


def replace_expression(
    tree: SourceTree, node: cst.BaseExpression, text: str, size: int = 1
) -> TreeEdit:
    """Return the edit that replaces `node` by the expression `text`.

    `size` is how much code it removes; a list of edits is split where the sizes balance.
    """
    new = cst.parse_expression(text)
    return TreeEdit({node: lambda now: parenthesize(tree, node, new)}, size)


def hoist(tree: SourceTree, node: cst.BaseExpression, child: cst.BaseExpression) -> TreeEdit:
    """Return the edit that replaces `node` by its subexpression `child`: `f(x)` by `x`."""

    def change(now: CurrentNode) -> Replacement:
        """Return `child` after the other edits, in parentheses if needed."""
        new = now(child)
        assert isinstance(new, cst.BaseExpression)
        return parenthesize(tree, node, new)

    return TreeEdit({node: change}, len(tree.code(node)) - len(tree.code(child)))


_LOOSE = (
    cst.BinaryOperation,
    cst.Comparison,
    cst.BooleanOperation,
    cst.UnaryOperation,
    cst.IfExp,
    cst.Lambda,
    cst.NamedExpr,
    cst.Await,
    cst.Yield,
    cst.GeneratorExp,
    cst.Tuple,
    cst.ConcatenatedString,
)
"""Expressions that may need parentheses inside other ones."""
_TIGHT = (
    cst.Attribute,
    cst.Call,
    cst.Subscript,
    cst.BinaryOperation,
    cst.UnaryOperation,
    cst.Comparison,
    cst.ComparisonTarget,
    cst.BooleanOperation,
    cst.Await,
    cst.StarredElement,
    cst.IfExp,
)
"""Nodes inside which such expressions need parentheses."""


def parenthesize(tree: SourceTree, old: cst.CSTNode, new: cst.BaseExpression) -> cst.BaseExpression:
    """Return `new`, in parentheses if it needs them in the place of `old`.

    In place of the `x` in `x.sum()`, `a + b` becomes `(a + b)`.
    """
    if new.lpar or not isinstance(new, _LOOSE):
        return new
    parent = tree.parents[old]
    bare = isinstance(parent, cst.Assign | cst.Return | cst.Expr)
    inside = isinstance(new, cst.Tuple | cst.NamedExpr | cst.GeneratorExp | cst.Yield)
    if isinstance(parent, _TIGHT) or (inside and not bare):
        return new.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return new
