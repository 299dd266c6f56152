"""Proposals for expressions: sizes, slices, comprehensions of at most one element."""

from __future__ import annotations

import ast
import re

import libcst as cst

from fullgraph.minifier.reduce.source.inlining import substitute_names
from fullgraph.minifier.reduce.source.source_tree import (
    SourceTree,
    TreeEdit,
    hoist,
    replace_always,
    replace_expression,
)

_SIZE = re.compile(r"(?P<name>\w+)\.(?:shape\[(?P<axis>-?\d+)\]|size\((?P<argument>-?\d+)\))")


def whole_tensors(tree: SourceTree) -> list[TreeEdit]:
    """Propose `x` in place of each slice `x[:, 1:]` inside a function."""
    found = []
    for node in tree.nodes_of_kind(cst.Subscript):
        slices = any(isinstance(element.slice, cst.Slice) for element in node.slice)
        if slices and tree.function(node) is not None:
            found.append(hoist(tree, node, node.value))
    return found


def unroll_comprehensions(tree: SourceTree) -> list[TreeEdit]:
    """Propose `[f(y)]` in place of `[f(x) for x in [y]]`, and `[]` for one over an empty list."""
    found = []
    for node in tree.nodes_of_kind(cst.ListComp, cst.DictComp):
        loop = node.for_in
        if loop.ifs or loop.inner_for_in or not isinstance(loop.iter, cst.Tuple | cst.List):
            continue
        match loop.target, loop.iter.elements:
            case _, []:
                text = "{}" if isinstance(node, cst.DictComp) else "[]"
                found.append(replace_expression(tree, node, text))
            case cst.Name(value=name), [cst.Element(value=value)] if isinstance(node, cst.ListComp):
                only = cst.Element(substitute_names(node.elt, {name: value}))
                found.append(TreeEdit({node: replace_always(cst.List([only]))}))
    return found


def known_sizes(tree: SourceTree) -> list[TreeEdit]:
    """Propose `3` in place of `x.shape[0]`, or `4` in place of `x.shape[0] + 1`, for inputs `x`."""
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
    """Return the number, as text, for a match of `x.shape[0]`; the matched text if it is unknown.

    `shapes` has the shapes of the inputs, by name.
    """
    axis = int(found["axis"] or found["argument"])
    shape = shapes.get(found["name"], ())
    return str(shape[axis]) if -len(shape) <= axis < len(shape) else found[0]


def _input_shapes(tree: SourceTree) -> dict[str, tuple[int, ...]]:
    """Return {name: shape} of the inputs: {"x": (2, 3)} for `x = torch.ones(2, 3)`.

    Only of those whose sizes are literals.
    """
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
