"""Proposals for attributes: their values where they are read, no empty constructors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import libcst as cst

from fullgraph.minifier.reduce.source.inlining import substitute_names
from fullgraph.minifier.reduce.source.source_tree import (
    Changes,
    CurrentNode,
    Replacement,
    SourceTree,
    TreeEdit,
    parenthesize,
)

_SHORT = (cst.Name, cst.BaseNumber, cst.BaseString)
"""Expressions that may be written in several places."""


def inline_attributes(tree: SourceTree) -> list[TreeEdit]:
    """Propose `3` in place of `self.size` if `self.size = 3` is the only assignment to it.

    For `self.size = n` in the constructor, the argument in the only call of the class is written.
    """
    sets: dict[str, list[cst.SimpleStatementLine]] = {}
    for line in tree.nodes_of_kind(cst.SimpleStatementLine):
        target, _ = attribute_set(line)
        if target is not None:
            sets.setdefault(target.attr.value, []).append(line)
    return [
        edit
        for name, lines in sets.items()
        if len(lines) == 1
        for edit in _inline_attribute(tree, name, lines[0])
    ]


def drop_empty_constructors(tree: SourceTree) -> list[TreeEdit]:
    """Propose to remove each `__init__` that does nothing but call `super().__init__()`."""
    found = []
    for kind in tree.nodes_of_kind(cst.ClassDef):
        for method in kind.body.body:
            if isinstance(method, cst.FunctionDef) and method.name.value == "__init__":
                body = [tree.code(line).strip() for line in method.body.body]
                if set(body) <= {"super().__init__()", "pass"} and len(kind.body.body) > 1:
                    found.append(TreeEdit({method: lambda now: cst.RemoveFromParent()}))
    return found


def attribute_set(
    line: cst.SimpleStatementLine,
) -> tuple[cst.Attribute | None, cst.BaseExpression | None]:
    """Return the target and value of `object.name = value`; (None, None) for other statements."""
    match line.body[0]:
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Attribute(value=cst.Name()) as target)],
            value=value,
        ):
            return target, value
    return None, None


def _inline_attribute(
    tree: SourceTree, name: str, line: cst.SimpleStatementLine
) -> Iterator[TreeEdit]:
    """Yield the edit that writes the value assigned in `line` where the attribute `name` is read.

    Nothing is yielded if the value cannot be written there.
    """
    target, value = attribute_set(line)
    assert target is not None and value is not None
    reads = [
        node
        for node in tree.nodes_of_kind(cst.Attribute)
        if node.attr.value == name and node is not target
    ]
    arguments = _constructor_arguments(tree, line)
    value = substitute_names(value, arguments)
    local = {*arguments, *_parameters(tree.function(line))}
    mentioned = {node.value for node in _inside(tree, value) if isinstance(node, cst.Name)}
    if not reads or mentioned & local or (len(reads) > 1 and not isinstance(value, _SHORT)):
        return
    changes: Changes = {read: _written_at(tree, read, value) for read in reads}
    block = tree.parents[line]
    alone = isinstance(block, cst.IndentedBlock) and len(block.body) == 1
    gone: Replacement = cst.SimpleStatementLine([cst.Pass()]) if alone else cst.RemoveFromParent()
    yield TreeEdit({line: lambda now: gone, **changes})


def _written_at(
    tree: SourceTree, read: cst.Attribute, value: cst.BaseExpression
) -> Callable[[CurrentNode], Replacement]:
    """Return the change that writes `value` in place of the attribute `read`."""
    return lambda now: parenthesize(tree, read, value)


def _constructor_arguments(
    tree: SourceTree, line: cst.SimpleStatementLine
) -> Mapping[str, cst.BaseExpression]:
    """Return {parameter: argument} for the constructor that contains `line`.

    {} unless the script calls the class exactly once, without stars.
    """
    method = tree.function(line)
    if method is None or method.name.value != "__init__":
        return {}
    kind = next((one for one in tree.ancestors(method) if isinstance(one, cst.ClassDef)), None)
    if kind is None:
        return {}
    calls = [
        call for call in tree.nodes_of_kind(cst.Call) if tree.code(call.func) == kind.name.value
    ]
    if len(calls) != 1 or any(arg.star for arg in calls[0].args):
        return {}
    names = _parameters(method)[1:]
    found = {
        param.name.value: param.default
        for param in method.params.params
        if param.default is not None
    }
    for index, arg in enumerate(calls[0].args):
        if arg.keyword is not None:
            found[arg.keyword.value] = arg.value
        elif index < len(names):
            found[names[index]] = arg.value
    return found


def _parameters(function: cst.FunctionDef | None) -> list[str]:
    """Return the names of a function's positional parameters; [] for None."""
    return [param.name.value for param in function.params.params] if function is not None else []


def _inside(tree: SourceTree, node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return `node` and its descendants, in text order."""
    return [node, *tree.inside(node)]
