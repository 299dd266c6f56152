"""Proposals for statements: loops, graph breaks, returns, docstrings, container lengths."""

from __future__ import annotations

import libcst as cst
from libcst import matchers as m

from fullgraph.minifier.reduce.source.source_tree import (
    SourceTree,
    TreeEdit,
    remove_node,
    replace_always,
    replace_expression,
)
from fullgraph.minifier.simplify.variables import mentions

_STRUCTURE = "torch.utils._pytree.tree_structure"
_BREAK = cst.parse_statement("torch._dynamo.graph_break()")


def drop_counters(tree: SourceTree) -> list[TreeEdit]:
    """Propose `for x in xs` in place of `for i, x in enumerate(xs)` if nothing reads `i`."""
    found = []
    for loop in tree.nodes_of_kind(cst.For):
        match loop.target, loop.iter:
            case (
                cst.Tuple(elements=[cst.Element(value=cst.Name(value=counter)), item]),
                cst.Call(func=cst.Name(value="enumerate"), args=[each]),
            ) if not mentions(tree, loop.body, counter):
                target, values = replace_always(item.value), replace_always(each.value)
                found.append(TreeEdit({loop.target: target, loop.iter: values}))
    return found


def name_graph_breaks(tree: SourceTree) -> list[TreeEdit]:
    """Propose `torch._dynamo.graph_break()` in place of an `if` whose body is `pass`."""
    return [
        TreeEdit({node: replace_always(_BREAK)})
        for node in tree.nodes_of_kind(cst.If)
        if node.orelse is None
        and [tree.code(one).strip() for one in node.body.body] == ["pass"]
        and not m.matches(node.test, m.Name() | m.Attribute())
    ]


def drop_docstrings(tree: SourceTree) -> list[TreeEdit]:
    """Propose to remove each docstring."""
    return [
        remove_node(block.body[0])
        for block in tree.nodes_of_kind(cst.IndentedBlock)
        if len(block.body) > 1
        and m.matches(block.body[0], m.SimpleStatementLine([m.Expr(m.SimpleString())]))
    ]


def drop_empty_returns(tree: SourceTree) -> list[TreeEdit]:
    """Propose to remove each `return` without a value at the end of a function."""
    return [
        remove_node(line)
        for line in _last_lines(tree)
        if tree.code(line).strip() in ("return", "return None", "return ()")
        and not m.matches(tree.parents[line], m.IndentedBlock([m.DoNotCare()]))
    ]


def return_last(tree: SourceTree) -> list[TreeEdit]:
    """Propose to return the last expression of a function that returns nothing."""
    found = []
    for line in _last_lines(tree):
        match line.body:
            case [cst.Expr(value=value)] if not _returns(tree, tree.function(line)):
                if not isinstance(value, cst.Call) or tree.code(value).startswith("torch."):
                    found.append(TreeEdit({line.body[0]: replace_always(cst.Return(value))}))
    return found


def _last_lines(tree: SourceTree) -> list[cst.SimpleStatementLine]:
    """Return the last statement of each function, unless it is a compound statement."""
    return [
        line
        for function in tree.nodes_of_kind(cst.FunctionDef)
        if isinstance(line := function.body.body[-1], cst.SimpleStatementLine)
    ]


def _returns(tree: SourceTree, function: cst.FunctionDef | None) -> bool:
    """Return whether a function contains a `return` or `yield`; False for None."""
    inside = tree.inside(function) if function is not None else ()
    return any(isinstance(one, cst.Return | cst.Yield) for one in inside)


def compare_lengths(tree: SourceTree) -> list[TreeEdit]:
    """Propose `len(x)` in place of `tree_structure(x)`, by which a script compares containers."""
    calls = [call for call in tree.nodes_of_kind(cst.Call) if tree.code(call.func) == _STRUCTURE]
    edits = [replace_expression(tree, call.func, "len") for call in calls]
    changes = {node: change for edit in edits for node, change in edit.changes.items()}
    return [TreeEdit(changes)] if changes else []


def fill_empty_strings(tree: SourceTree) -> list[TreeEdit]:
    """Propose one unused letter in place of all empty strings: `"a"` for `""`."""
    strings = tree.nodes_of_kind(cst.SimpleString)
    empty = [node for node in strings if not node.raw_value and not node.prefix]
    used = {node.raw_value for node in strings}
    letter = next(one for one in "abcdefghijklmnopqrstuvwxyz" if one not in used)
    text = f'"{letter}"'
    edits = [replace_expression(tree, node, text) for node in empty]
    changes = {node: change for edit in edits for node, change in edit.changes.items()}
    return [TreeEdit(changes)] if changes else []
