"""Proposals for names: `x` for the only input, no underscores at the end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import libcst as cst

from fullgraph.minifier.reduce.source.source_tree import SourceTree, TreeEdit, replace_always
from fullgraph.minifier.simplify.variables import arguments_of, mentions

_INPUT = "x"
_INPUTS = ["x", "y", "z"]


def rename_input(tree: SourceTree) -> list[TreeEdit]:
    """Propose `x` for the input of a script that has one function with one parameter."""
    if mentions(tree, tree.module, _INPUT):
        return []
    second = [one for one in ("y", "z") if mentions(tree, tree.module, one)]
    if len(second) == 1 and re.search(rf"^{second[0]} = ", tree.text, re.MULTILINE):
        return [_rename(tree, second[0], _INPUT)]
    functions = [one for one in tree.module.body if isinstance(one, cst.FunctionDef)]
    if len(functions) != 1 or len(functions[0].params.params) != 1:
        return []
    name = functions[0].params.params[0].name.value
    assigned = any(
        isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == name
        for line in ast.parse(tree.text).body
    )
    if not assigned:
        return []
    return [_rename(tree, name, _INPUT)]


def rename_inputs(tree: SourceTree) -> list[TreeEdit]:
    """Propose `x`, `y` and `z` for the inputs of the only function, `f`."""
    functions = [one for one in tree.module.body if isinstance(one, cst.FunctionDef)]
    if len(functions) != 1 or functions[0].name.value != "f":
        return []
    old = [param.name.value for param in functions[0].params.params]
    new = _INPUTS[: len(old)]
    assigned = {
        ast.unparse(target)
        for line in ast.parse(tree.text).body
        if isinstance(line, ast.Assign)
        for target in line.targets
    }
    others = [name for name in new if name not in old and mentions(tree, tree.module, name)]
    if not 1 < len(old) <= len(_INPUTS) or others or not assigned.issuperset(old) or old == new:
        return []
    pairs = zip(old, new, strict=True)
    edits = [_rename(tree, before, after) for before, after in pairs if before != after]
    return [TreeEdit({node: change for edit in edits for node, change in edit.changes.items()})]


def name_parameters(tree: SourceTree) -> list[TreeEdit]:
    """Propose `def f(x)` in place of `def f(a)` if all calls pass the variable `x` for `a`."""
    found = []
    for function in tree.module.body:
        if not isinstance(function, cst.FunctionDef):
            continue
        for param, values in arguments_of(tree, function):
            new, old = values.pop() if len(values) == 1 else "", param.name.value
            if new.isidentifier() and new != old and not mentions(tree, function, new):
                uses = mentions(tree, function, old)
                found.append(TreeEdit({one: replace_always(cst.Name(new)) for one in uses}))
    return found


def strip_underscores(tree: SourceTree) -> list[TreeEdit]:
    """Propose the name `f` in place of a function's name `f_`, if `f` is unused."""
    return list(_without_underscores(tree))


def _without_underscores(tree: SourceTree) -> Iterator[TreeEdit]:
    for function in tree.module.body:
        if isinstance(function, cst.FunctionDef) and function.name.value.endswith("_"):
            name = function.name.value
            short = name.rstrip("_")
            if short.isidentifier() and not mentions(tree, tree.module, short):
                yield _rename(tree, name, short)


def _rename(tree: SourceTree, old: str, new: str) -> TreeEdit:
    """Return the edit that renames a variable or function everywhere."""
    return TreeEdit(
        {node: replace_always(cst.Name(new)) for node in mentions(tree, tree.module, old)}
    )
