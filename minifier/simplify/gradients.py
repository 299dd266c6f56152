"""Proposal to compare the gradient of the input in place of a parameter's."""

from __future__ import annotations

import re

import libcst as cst

from fullgraph.minifier.reduce.source.source_tree import (
    SourceTree,
    TreeEdit,
    replace_expression,
)
from fullgraph.minifier.simplify.construction import drop_attributes

_OF_PARAMETER = re.compile(r"\w+(\.\w+)+\.grad")


def compare_input_gradient(tree: SourceTree) -> list[TreeEdit]:
    """Propose `x.grad` for the gradient of a parameter, and `x` for the calls of submodules."""
    compared = [
        node
        for node in tree.nodes_of_kind(cst.Attribute)
        if _OF_PARAMETER.fullmatch(tree.code(node))
    ]
    inputs = [
        (name, call)
        for line in tree.nodes_of_kind(cst.Assign)
        if (call := line.value)
        and isinstance(call, cst.Call)
        and tree.code(call.func) in ("torch.ones", "torch.randn", "torch.rand", "torch.zeros")
        and (name := tree.code(line.targets[0].target)).isidentifier()
    ]
    if not compared or len({tree.code(node) for node in compared}) != 1:
        return []
    found = []
    for name, call in inputs:
        text = tree.code(call)
        if "requires_grad" not in text:
            text = f"{text[:-1]}, requires_grad=True)"
        edits = [replace_expression(tree, node, f"{name}.grad") for node in compared]
        edits += [replace_expression(tree, call, text), *drop_attributes(tree)]
        found.append(TreeEdit({node: c for edit in edits for node, c in edit.changes.items()}))
    return found
