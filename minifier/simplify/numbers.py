"""Proposals for numbers: folded constants, short literals, sizes of inputs that are not empty."""

from __future__ import annotations

import ast
import math

import libcst as cst

from fullgraph.minifier.reduce.source.source_tree import SourceTree, TreeEdit, replace_expression

_MADE = ("ones", "zeros", "randn", "rand", "empty", "full", "randint", "empty_strided")
_ARITHMETIC = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.operator, ast.unaryop)
_SIZE = "2"
"""The size to try in place of 0."""
_LARGE = 1e4
"""Floats from here on are not rounded to whole numbers."""
_DIGITS = 2
"""Significant digits of a float that is short enough."""


def fill_empty_tensors(tree: SourceTree) -> list[TreeEdit]:
    """Propose size 2 for each 0 among the sizes of a new tensor, one edit a call."""
    found = []
    for call in tree.nodes_of_kind(cst.Call):
        name = tree.code(call.func).rpartition(".")
        if name[0] != "torch" or name[2] not in _MADE:
            continue
        sizes = [arg.value for arg in call.args if arg.keyword is None]
        if name[2] in ("full", "empty_strided"):
            sizes = sizes[:1]
        elif name[2] == "randint":
            sizes = sizes[-1:]
        flat = [
            element.value
            for size in sizes
            for element in (size.elements if isinstance(size, cst.Tuple) else [cst.Element(size)])
        ]
        zeros = [one for one in flat if isinstance(one, cst.Integer) and one.value == "0"]
        if zeros:
            edits = [replace_expression(tree, zero, _SIZE).changes for zero in zeros]
            found.append(
                TreeEdit({node: change for each in edits for node, change in each.items()})
            )
    return found


def fill_empty_lists(tree: SourceTree) -> list[TreeEdit]:
    """Propose `[1]` for each empty list that a function of the script passes to a call."""
    return [
        replace_expression(tree, node, "[1]")
        for node in tree.nodes_of_kind(cst.List)
        if not node.elements and isinstance(tree.parents[node], cst.Arg)
        if tree.function(node) is not None
    ]


def fold_constants(tree: SourceTree) -> list[TreeEdit]:
    """Propose the value of each expression made of literals only, as `0` for `-0`."""
    found = []
    for node in tree.nodes_of_kind(cst.BinaryOperation, cst.UnaryOperation):
        plain = isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus)
        text = _value_of(tree.code(node))
        if text is not None and text != tree.code(node) and not (plain and text.startswith("-")):
            found.append(replace_expression(tree, node, text))
    return found


def whole_numbers(tree: SourceTree) -> list[TreeEdit]:
    """Propose the nearest whole number, but not 0, for each float that is no multiple of 0.5."""
    found = []
    for node in tree.nodes_of_kind(cst.Float):
        value = float(node.value)
        if math.isfinite(value) and value < _LARGE and value % 0.5:
            found.append(replace_expression(tree, node, repr(float(max(1, round(value))))))
    return found


def round_literals(tree: SourceTree) -> list[TreeEdit]:
    """Propose one significant digit for each float that has many."""
    found = []
    for node in tree.nodes_of_kind(cst.Float):
        value = float(node.value)
        digits = node.value.lower().partition("e")[0].replace(".", "").strip("0")
        if len(digits) > _DIGITS and math.isfinite(value) and value:
            short = repr(float(f"{value:.1g}"))
            if len(short) < len(node.value):
                found.append(replace_expression(tree, node, short))
    return found


def _value_of(text: str) -> str | None:
    """Return the value of arithmetic on literals as source; None if it has no short one."""
    try:
        tree = ast.parse(text, mode="eval")
        if not all(isinstance(node, _ARITHMETIC) for node in ast.walk(tree)):
            return None
        value = eval(compile(tree, "<literals>", "eval"), {})
    except (ArithmeticError, SyntaxError, TypeError, ValueError):
        return None
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    told = repr(value)
    return told if len(told) <= max(6, len(text)) else None
