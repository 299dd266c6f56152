"""Proposals for numbers: folded constants, short literals, no sizes of 0."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator

import libcst as cst

from fullgraph.minifier.reduce.source.source_tree import (
    SourceTree,
    TreeEdit,
    replace_always,
    replace_expression,
)
from fullgraph.minifier.simplify.results import Changes

_MADE = ("ones", "zeros", "randn", "rand", "empty", "full", "randint", "empty_strided")
"""Functions of torch that make tensors."""
_ARITHMETIC = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.operator, ast.unaryop)
"""Nodes of arithmetic on literals."""
_SIZE = "2"
"""The size that is tried in place of 0, and of 1."""
_SQUEEZED = "got, expected = got.squeeze().stride(), expected.squeeze().stride()"
"""The statement that removes axes of size 1 before strides are compared."""
_ASSERTION = cst.parse_statement(
    'assert got.stride() == expected.stride(), f"expected {expected.stride()}, got {got.stride()}"'
)
_LARGE = 1e4
"""Floats from this one on are not rounded to whole numbers."""
_DIGITS = 2
"""Number of significant digits up to which a float is short."""


def fill_empty_tensors(tree: SourceTree) -> list[TreeEdit]:
    """Propose size 2 in place of each size 0 of a new tensor, one edit per call."""
    return [TreeEdit(changes) for changes in _resized(tree, "0") if changes]


def compare_all_strides(tree: SourceTree) -> list[TreeEdit]:
    """Propose to compare all strides, and size 2 in place of 1 in new tensors.

    A script compares strides of `x.squeeze()`, because those of axes of size 1 do not matter.
    """
    lines = tree.module.body[-2:]
    if len(lines) < 2 or tree.code(lines[0]).strip() != _SQUEEZED:
        return []
    changes: Changes = {lines[0]: lambda now: cst.RemoveFromParent()}
    changes[lines[1]] = replace_always(_ASSERTION)
    for resized in _resized(tree, "1"):
        changes |= resized
    return [TreeEdit(changes)]


def _resized(tree: SourceTree, size: str) -> Iterator[Changes]:
    """Yield, for each call that makes a tensor, the changes that write 2 for each size `size`."""
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
            for each in sizes
            for element in (each.elements if isinstance(each, cst.Tuple) else [cst.Element(each)])
        ]
        same = [one for one in flat if isinstance(one, cst.Integer) and one.value == size]
        edits = [replace_expression(tree, one, _SIZE).changes for one in same]
        yield {node: change for each in edits for node, change in each.items()}


def fix_random_tensors(tree: SourceTree) -> list[TreeEdit]:
    """Propose `torch.ones` in place of `torch.randn` and `torch.rand`, one call per edit."""
    return [
        replace_expression(tree, call.func, "torch.ones")
        for call in tree.nodes_of_kind(cst.Call)
        if tree.code(call.func) in ("torch.randn", "torch.rand")
    ]


def plain_factors(tree: SourceTree) -> list[TreeEdit]:
    """Propose `3` in place of `torch.tensor(3)` if it is an operand: `x * torch.tensor(3)`."""
    return [
        replace_expression(tree, node, made[1])
        for node in tree.nodes_of_kind(cst.Call)
        if isinstance(tree.parents[node], cst.BinaryOperation)
        if (made := re.fullmatch(r"torch\.tensor\(\[?([\d.]+)\]?\)", tree.code(node)))
    ]


def fill_empty_lists(tree: SourceTree) -> list[TreeEdit]:
    """Propose `[1]` in place of each empty list that is an argument inside a function."""
    return [
        replace_expression(tree, node, "[1]")
        for node in tree.nodes_of_kind(cst.List)
        if not node.elements and isinstance(tree.parents[node], cst.Arg)
        if tree.function(node) is not None
    ]


def fold_constants(tree: SourceTree) -> list[TreeEdit]:
    """Propose the value of each arithmetic expression of literals: `6` in place of `2 * 3`."""
    found = []
    for node in tree.nodes_of_kind(cst.BinaryOperation, cst.UnaryOperation):
        plain = isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus)
        text = _value_of(tree.code(node))
        if text is not None and text != tree.code(node) and not (plain and text.startswith("-")):
            found.append(replace_expression(tree, node, text))
    return found


def whole_numbers(tree: SourceTree) -> list[TreeEdit]:
    """Propose the nearest whole number, at least 1, for each float that is no multiple of 0.5.

    `3.0` in place of `2.7`, but nothing in place of `2.5`.
    """
    found = []
    for node in tree.nodes_of_kind(cst.Float):
        value = float(node.value)
        if math.isfinite(value) and value < _LARGE and value % 0.5:
            found.append(replace_expression(tree, node, repr(float(max(1, round(value))))))
    return found


def round_literals(tree: SourceTree) -> list[TreeEdit]:
    """Propose one significant digit for each float that has more than two: `0.1` for `0.1234`."""
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
    """Return the value of arithmetic on literals as source: "2 * 3" → "6".

    None if `text` is not such arithmetic, or if the value is long.
    """
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
