"""Parsed source file: its libcst tree, node positions, imports, and edits."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.events import Position
from fullgraph.rewrites.source.import_lines import add_imports, imported_names
from fullgraph.rewrites.source.templates import parenthesize, round_trips
from fullgraph.rewrites.source.tree import Ranges, post_order, walk
from fullgraph.rewrites.source.wrapping import wrap_new_lines

Replacement = cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]
Span = tuple[int, int | None, int | None, int | None]
FunctionNode = cst.FunctionDef | cst.Lambda


@dataclass(frozen=True, eq=False)
class Document:
    """Text and syntax tree of a file; nodes are compared by identity."""

    file: str
    text: str
    module: cst.Module
    ranges: Ranges
    inherited: Mapping[str, str]
    """In a notebook's cell, the `imports` of the cells that ran before it; else empty."""

    # Positions.

    def position(self, node: cst.CSTNode) -> Position:
        """Return the span of a node, columns in UTF-8 bytes as in `ast`."""
        return Position(self.file, *self._span(node), self.function_name(node))

    def node(self, position: Position) -> cst.CSTNode | None:
        """Return the outermost node whose span is `position`, preferably an expression.

        If libcst has no such node (the tuple of `x[a, b]`), return the smallest node around the
        position. If `position` has no columns, return the innermost statement on the line.
        """
        if position.column is None:
            return self.statement_at(position.line)
        last = position.end_line or (position.line if position.end_column is not None else None)
        nodes = _nodes_by_span(self, self.ranges.statement_at(position.line))
        found = nodes.get((position.line, position.column, last, position.end_column))
        if found is None and position.end_line is None:
            found = next((n for s, n in nodes.items() if _starts_at(s, position)), None)
        return found or _innermost(nodes, position)

    def statement_at(self, line: int) -> cst.CSTNode | None:
        """Return the innermost statement that covers a line; None if the line has none."""
        top = self.ranges.statement_at(line)
        statements = (one for one in walk(top) if isinstance(one, _STATEMENTS)) if top else ()
        covering = [one for one in statements if self._covers(one, line)]
        return covering[-1] if covering else None

    @property
    def parents(self) -> Mapping[cst.CSTNode, cst.CSTNode]:
        """The parent of each node but the module."""
        return self.ranges.parents

    def parent(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the parent of `node`. Raises KeyError for the module."""
        return self.parents[node]

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the ancestors of `node`, innermost first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def statement(self, node: cst.CSTNode) -> cst.SimpleStatementLine | cst.BaseCompoundStatement:
        """Return the innermost statement line or compound statement that is or contains `node`."""
        for one in (node, *self.ancestors(node)):
            if isinstance(one, _STATEMENTS):
                return one
        raise KeyError("the node is not part of a statement")

    def function(self, node: cst.CSTNode) -> FunctionNode | None:
        """Return the innermost function or lambda around `node`; None at module level."""
        return next((one for one in self.ancestors(node) if isinstance(one, FunctionNode)), None)

    def function_name(self, node: cst.CSTNode) -> str:
        """Return the name of the innermost function around `node`; "" at module level."""
        function = self.function(node)
        if function is None:
            return ""
        return function.name.value if isinstance(function, cst.FunctionDef) else "<lambda>"

    # Text and names.

    def code(self, node: cst.CSTNode) -> str:
        """Return the source text of a node, without parentheses and comments around it."""
        if node not in self.ranges:
            return self.module.code_for_node(node)
        span = self.ranges[node]
        lines = self._lines[span.start.line - 1 : span.end.line]
        lines[-1] = lines[-1][: span.end.column]
        lines[0] = lines[0][span.start.column :]
        return "\n".join(lines)

    def qualified_name(self, node: cst.CSTNode) -> str:
        """Resolve import aliases in a dotted name: `F.relu` is "torch.nn.functional.relu".

        A name that the file does not import stays as it is: "print", "self.mask".
        """
        first, _, rest = dotted_name(node).partition(".")
        known = self.imports.get(first, first)
        return f"{known}.{rest}" if rest else known

    @functools.cached_property
    def imports(self) -> dict[str, str]:
        """Qualified names by the names that imports bind, including imports inside functions."""
        return {**self.inherited, **imported_names(self.ranges)}

    def class_around(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """Return the innermost class around a node; None outside of classes."""
        around = self.ancestors(node)
        return next((one for one in around if isinstance(one, cst.ClassDef)), None)

    def imported_name(self, qualified: str) -> str | None:
        """Return how the file writes a qualified name, such as "F.relu"; None if not imported."""
        for name, meaning in self.imports.items():
            if qualified == meaning or qualified.startswith(f"{meaning}."):
                return name + qualified[len(meaning) :]
        return None

    @property
    def torch(self) -> str:
        """How new code writes the module `torch`: "torch", or the name that it is imported as."""
        return self.imported_name("torch") or "torch"

    def unused_name(self, stem: str) -> str:
        """Return a name that the file does not use: `stem`, `stem_2`, …"""
        return _free_name(self._names, stem)

    def unused_local(self, node: cst.CSTNode, *stems: str) -> str:
        """Return a name for a variable of the function around `node`: the first stem that is free.

        If none is, the first one with a number: `mask_2`.
        """
        functions = [one for one in self.ancestors(node) if isinstance(one, cst.FunctionDef)]
        if not functions:
            return self.unused_name(stems[0])
        inside = {one.value for one in walk(functions[-1]) if isinstance(one, cst.Name)}
        taken = self._top_names | inside
        return next((one for one in stems if one not in taken), _free_name(taken, stems[0]))

    # Edits.

    def with_edits(
        self, replacements: Mapping[cst.CSTNode, Replacement], imports: Sequence[str] = ()
    ) -> str:
        """Return the text with nodes replaced and modules imported, and all else unchanged.

        `imports` are dotted module names ("torch", "torch.nn as nn"), added where missing.
        Parentheses are added where a new expression needs them.
        """
        changing = {one for node in replacements for one in (node, *self.ancestors(node))}
        if not self._round_trips(replacements, changing):
            replacements = {
                old: parenthesize(new) if isinstance(new, cst.BaseExpression) else new
                for old, new in replacements.items()
            }
        module = replace_nodes(self.module, replacements, changing.__contains__)
        missing = [name for name in dict.fromkeys(imports) if not self._imports(name, replacements)]
        module = add_imports(module, missing)
        return wrap_new_lines(self.text, self.ranges.code_of(module) + self._text_after_tree)

    def _round_trips(
        self, replacements: Mapping[cst.CSTNode, Replacement], changing: Collection[cst.CSTNode]
    ) -> bool:
        """Return whether the text of each edited statement parses to the edited tree.

        `changing` are the replaced nodes and their ancestors.
        """
        parse = functools.partial(cst.parse_statement, config=self.module.config_for_parsing)
        for statement in {self.statement(node) for node in replacements}:
            new: object = replace_nodes(statement, replacements, changing.__contains__)
            parts = new.nodes if isinstance(new, cst.FlattenSentinel) else [new]
            for part in (one for one in parts if one not in self.ranges):
                if isinstance(part, _STATEMENTS):
                    part = part.with_changes(leading_lines=())  # empty ones are parsed otherwise
                if isinstance(part, cst.CSTNode) and not round_trips(part, parse, self.module):
                    return False
        return True

    @functools.cached_property
    def _text_after_tree(self) -> str:
        """The blank lines and comments at the end of the text that libcst drops."""
        return self.text[len(_text_of_statements(self.text)) :]

    def _imports(self, name: str, edited: Iterable[cst.CSTNode]) -> bool:
        """Return whether edits can use `name`: "torch" or, for any alias, "m as a".

        An import in a function that is not around all `edited` nodes does not count.
        """
        imported, _, alias = name.partition(" as ")
        around = [{None, *self.ancestors(node)} for node in edited]
        lines = [n for n in self.ranges if isinstance(n, cst.Import | cst.ImportFrom)]
        seen = [n for n in lines if all(self.function(n) in one for one in around)]
        known = {**self.inherited, **imported_names(seen)}.values()
        if alias:
            return imported in known
        return any(f"{imported}.".startswith(f"{one}.") for one in known)

    # Lookup tables.

    def _covers(self, node: cst.CSTNode, line: int) -> bool:
        """Return whether a node's span contains a line."""
        span = self.ranges[node]
        return span.start.line <= line <= span.end.line

    @functools.cached_property
    def _lines(self) -> list[str]:
        return self.text.split("\n")

    @functools.cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(node.value for node in self.ranges if isinstance(node, cst.Name))

    @functools.cached_property
    def _top_names(self) -> frozenset[str]:
        """Names that are mentioned outside of functions, and those that imports bind."""
        names = [node for node in self.ranges if isinstance(node, cst.Name)]
        outside = {node.value for node in names if self.function(node) is None}
        return frozenset(outside | self.imports.keys())

    def _span(self, node: cst.CSTNode) -> Span:
        start, end = self.ranges[node].start, self.ranges[node].end
        return (
            start.line,
            self._byte_offset(start.line, start.column),
            end.line,
            self._byte_offset(end.line, end.column),
        )

    def _byte_offset(self, line: int, column: int) -> int:
        """Return the UTF-8 bytes before a column that counts characters."""
        text = self._lines[line - 1]
        return column if text.isascii() else len(text[:column].encode())


_STATEMENTS = cst.SimpleStatementLine | cst.BaseCompoundStatement
_PLACES = (
    cst.BaseExpression,
    cst.BaseSmallStatement,
    cst.BaseStatement,
    cst.Comma,
)


@functools.lru_cache(maxsize=256)
def _nodes_by_span(document: Document, top: cst.CSTNode | None) -> dict[Span, cst.CSTNode]:
    """Return, for each span in a top-level statement, its outermost node.

    If a statement has the span of an expression, that is the expression.
    """
    found: dict[Span, cst.CSTNode] = {}
    for node in post_order(top) if top else ():
        if not isinstance(node, _PLACES):
            continue
        key = document._span(node)
        known = found.get(key)
        if known is None or (
            isinstance(node, cst.BaseExpression) and not isinstance(known, cst.BaseExpression)
        ):
            found[key] = node
    return found


def _innermost(nodes: Mapping[Span, cst.CSTNode], position: Position) -> cst.CSTNode | None:
    """Return the smallest of some nodes that covers a span."""
    start = (position.line, position.column or 0)
    end = (position.end_line or position.line, position.end_column or start[1])
    covering = [
        (span, node)
        for span, node in nodes.items()
        if (span[0], span[1]) <= start and (span[2], span[3]) >= end
    ]
    covering.sort(key=lambda pair: (pair[0][:2], tuple(-x for x in pair[0][2:] if x)))
    return covering[-1][1] if covering else None


def _free_name(taken: Collection[str], stem: str) -> str:
    """Return the first of `stem`, `stem_2`, … that is not in `taken`."""
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}_{number}", number + 1
    return name


def dotted_name(node: cst.CSTNode) -> str:
    """Return "a.b.c" for a variable or a path of attributes on one; "" for anything else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute) and (base := dotted_name(node.value)):
        return f"{base}.{node.attr.value}"
    return ""


def integer_literal(node: cst.BaseExpression | None) -> int | None:
    """Return the value of an integer literal, negated or not; None for anything else."""
    match node:
        case cst.Integer():
            return node.evaluated_value
        case cst.UnaryOperation(operator=cst.Minus(), expression=cst.Integer() as number):
            return -number.evaluated_value
    return None


def parse_document(file: str, text: str, imports: str = "") -> Document:
    """Parse a Python text as the content of `file`. Raises FullgraphError if it is not valid.

    `imports` are import statements that ran before the text, such as those of a notebook's
    earlier cells; the document resolves names by them, and does not contain them.
    """
    try:
        module = cst.parse_module(_text_of_statements(text))
    except cst.ParserSyntaxError as error:
        raise FullgraphError(
            f"{file}:{error.raw_line} is not valid Python ({error.message}): fix it first."
        ) from None
    inherited = parse_document(file, imports).imports if imports else {}
    return Document(file, text, module, Ranges(module), inherited)


def _text_of_statements(text: str) -> str:
    """Return a Python text without the blank lines and comments after its last statement.

    libcst drops some of these lines.
    """
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return text
    lines = text.split("\n")[: body[-1].end_lineno] if body else []
    content = "\n".join(lines).removesuffix("\r")
    return text if not lines or content.endswith("\\") else content


def _starts_at(span: Span, position: Position) -> bool:
    return span[:2] == (position.line, position.column)


def replace_nodes(
    tree: cst.CSTNodeT,
    replacements: Mapping[cst.CSTNode, Replacement],
    is_searched: Callable[[cst.CSTNode], bool] = lambda node: True,
) -> cst.CSTNodeT:
    """Return a copy of `tree` with each key of `replacements` replaced by its value.

    Nothing is replaced inside a node for which `is_searched` returns False.
    """
    return tree.visit(_Replace(replacements, is_searched))  # type: ignore[return-value]


class _Replace(cst.CSTTransformer):
    """Transformer that replaces nodes by identity."""

    def __init__(
        self,
        replacements: Mapping[cst.CSTNode, Replacement],
        is_searched: Callable[[cst.CSTNode], bool],
    ) -> None:
        super().__init__()
        self.replacements, self.is_searched = replacements, is_searched

    def on_visit(self, node: cst.CSTNode) -> bool:
        return self.is_searched(node)

    def on_leave(
        self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT
    ) -> cst.CSTNodeT | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNodeT]:
        if original_node in self.replacements:
            return self.replacements[original_node]  # type: ignore[return-value]
        return super().on_leave(original_node, updated_node)
