"""Proposals for expressions: the value of a size, a whole tensor for a slice of it."""

from __future__ import annotations

import ast
import re

import libcst as cst

from fullgraph.minifier.reduce.source.source_tree import (
    SourceTree,
    TreeEdit,
    hoist,
    replace_expression,
)

_SIZE = re.compile(r"(?P<name>\w+)\.(?:shape\[(?P<axis>-?\d+)\]|size\((?P<argument>-?\d+)\))")


def whole_tensors(tree: SourceTree) -> list[TreeEdit]:
    """Propose `x` for each slice `x[:, 1:]` inside a function."""
    found = []
    for node in tree.nodes_of_kind(cst.Subscript):
        slices = any(isinstance(element.slice, cst.Slice) for element in node.slice)
        if slices and tree.function(node) is not None:
            found.append(hoist(tree, node, node.value))
    return found


def known_sizes(tree: SourceTree) -> list[TreeEdit]:
    """Propose the number in place of `x.shape[0]`, and of arithmetic on it, for an input `x`."""
    shapes = _input_shapes(tree)
    found = []
    for node in tree.nodes_of_kind(cst.BinaryOperation, cst.Subscript, cst.Call):
        text = tree.code(node)
        numbers = _SIZE.sub(lambda made: _size_of(made, shapes), text)
        if numbers == text or not re.fullmatch(r"[\d\s()+\-*/]+", numbers):
            continue
        try:
            value = eval(numbers, {})
        except (ArithmeticError, SyntaxError, TypeError):
            continue
        if isinstance(value, int):
            found.append(replace_expression(tree, node, str(value)))
    return found


def _size_of(found: re.Match[str], shapes: dict[str, tuple[int, ...]]) -> str:
    """Return a size as a number; unchanged if it is not known."""
    axis = int(found["axis"] or found["argument"])
    shape = shapes.get(found["name"], ())
    return str(shape[axis]) if -len(shape) <= axis < len(shape) else found[0]


def _input_shapes(tree: SourceTree) -> dict[str, tuple[int, ...]]:
    """Return the shapes of inputs whose sizes are written out, by name."""
    shapes: dict[str, tuple[int, ...]] = {}
    for line in ast.parse(tree.text).body:
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                function = ast.unparse(call.func)
                plain = function in ("torch.ones", "torch.zeros", "torch.randn", "torch.rand")
                values = [arg.value if isinstance(arg, ast.Constant) else None for arg in call.args]
                sizes = tuple(value for value in values if isinstance(value, int))
                if plain and len(sizes) == len(values):
                    shapes[name] = sizes
    return shapes
