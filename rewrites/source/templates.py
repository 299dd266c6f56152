"""Builders of expressions and statements from templates, parenthesized where needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import libcst as cst

_EMPTY = cst.Module([])

_OPEN = (
    cst.BinaryOperation,
    cst.UnaryOperation,
    cst.BooleanOperation,
    cst.Comparison,
    cst.IfExp,
    cst.Lambda,
    cst.NamedExpr,
    cst.Await,
    cst.Yield,
    cst.Tuple,
    cst.Integer,
    cst.Float,
)
"""Expressions that need parentheses inside some other expressions."""


def build_expression(template: str, **parts: cst.BaseExpression | str) -> cst.BaseExpression:
    """Build an expression: `build_expression("torch.where({t}, {a}, {b})", t=node, …)`.

    A part is a string, which is inserted as it is, or a node. A node is inserted itself and not
    copied, so that facts recorded about it are still found.
    """
    names, text = _with_placeholders(template, parts)
    tree = cst.parse_expression(text)
    new = _insert_nodes(tree, names, cst.parse_expression)
    assert isinstance(new, cst.BaseExpression)
    return new


def build_statement(template: str, **parts: cst.BaseExpression | str) -> cst.BaseStatement:
    """Build one statement: `build_statement("{name} = {value}", name="y", value=node)`."""
    names, text = _with_placeholders(template, parts)
    tree = cst.parse_statement(text)
    assert not isinstance(tree, cst.EmptyLine)
    new = _insert_nodes(tree, names, cst.parse_statement)
    assert isinstance(new, cst.BaseStatement)
    return new


def leading_lines(line: cst.CSTNode) -> Sequence[cst.EmptyLine]:
    """Return the comments and blank lines that libcst attaches above a statement."""
    return tuple(getattr(line, "leading_lines", ()))


def inline_block(
    block: cst.BaseCompoundStatement, statements: Sequence[cst.BaseStatement]
) -> cst.FlattenSentinel[cst.BaseStatement]:
    """Return what to replace the statement `block` by, so that `statements` take its place.

    Comments above `block` stay, above the first of `statements`.
    """
    first, *rest = statements
    above = (*leading_lines(block), *leading_lines(first))
    return cst.FlattenSentinel([first.with_changes(leading_lines=above), *rest])


def with_keyword(call: cst.Call, name: str, value: cst.BaseExpression | str) -> cst.Call:
    """Return `call` with the keyword argument `name=value` at the end.

    If the call has an argument `name=` already, it is removed.
    """
    node = build_expression(value) if isinstance(value, str) else value
    args = [arg for arg in call.args if arg.keyword is None or arg.keyword.value != name]
    plain = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    last, after = args[-1], args[-1].comma
    between = [arg.comma.whitespace_after for arg in args if isinstance(arg.comma, cst.Comma)]
    gap = next(iter(between), cst.SimpleWhitespace(" "))
    if isinstance(gap, cst.ParenthesizedWhitespace):
        gap = gap.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=[])
    space = last.whitespace_after_arg
    new = cst.Arg(node, cst.Name(name), plain, after, whitespace_after_arg=space)
    comma, none = cst.Comma(whitespace_after=gap), cst.SimpleWhitespace("")
    last = last.with_changes(comma=comma, whitespace_after_arg=none)
    return call.with_changes(args=[*args[:-1], last, new])


def string_literal(value: str) -> cst.SimpleString:
    """Return `value` as a string literal, double-quoted unless it contains such quotes."""
    return cst.SimpleString(repr(value) if '"' in value else '"' + repr("'" + value)[2:])


def parenthesize(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return `node` in parentheses, or unchanged if it has some or never needs them."""
    if node.lpar or not isinstance(node, _OPEN):
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _with_placeholders(
    template: str, parts: Mapping[str, cst.BaseExpression | str]
) -> tuple[dict[str, cst.BaseExpression], str]:
    """Return the nodes in `parts` by placeholder name, and the template with placeholders.

    For "{t} + {n}" with the node `t` and the string n="1" the template becomes "_fg_t_ + 1".
    """
    nodes = {f"_fg_{k}_": v for k, v in parts.items() if isinstance(v, cst.BaseExpression)}
    texts = {k: v if isinstance(v, str) else f"_fg_{k}_" for k, v in parts.items()}
    return nodes, template.format(**texts)


def _insert_nodes(
    tree: cst.CSTNode, nodes: Mapping[str, cst.BaseExpression], parse: Callable[[str], cst.CSTNode]
) -> cst.CSTNode:
    """Return a parsed template in which the nodes replace the placeholders of the same names.

    Nodes are put in parentheses only if the code would not parse to this tree without them. `parse`
    parses the code of a tree again.
    """
    bare = tree.visit(_InsertNodes(nodes))
    assert isinstance(bare, cst.CSTNode)
    if round_trips(bare, parse):
        return bare
    literal = cst.Integer | cst.Float  # needs parentheses in `(1).real` only
    closed = {k: v if isinstance(v, literal) else parenthesize(v) for k, v in nodes.items()}
    most = tree.visit(_InsertNodes(closed))
    assert isinstance(most, cst.CSTNode)
    if round_trips(most, parse):
        return most
    all_closed = {name: parenthesize(node) for name, node in nodes.items()}
    new = tree.visit(_InsertNodes(all_closed))
    assert isinstance(new, cst.CSTNode)
    return new


def round_trips(
    tree: cst.CSTNode, parse: Callable[[str], cst.CSTNode], module: cst.Module = _EMPTY
) -> bool:
    """Return whether the code of `tree`, parsed again, gives an equal tree.

    False if parentheses are missing. `parse` is libcst's parser for this kind of node; `module`
    gives the indentation and line endings of the code.
    """
    try:
        again = parse(module.code_for_node(tree))
    except cst.ParserSyntaxError:
        return False
    return bool(tree.deep_equals(again))


class _InsertNodes(cst.CSTTransformer):
    """Transformer that replaces placeholders by nodes."""

    def __init__(self, nodes: Mapping[str, cst.BaseExpression]) -> None:
        super().__init__()
        self.nodes = nodes

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return self.nodes.get(updated_node.value, updated_node)
