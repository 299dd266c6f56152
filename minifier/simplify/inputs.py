"""Proposals for inputs: the second call gets the same ones if nothing writes to them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst import matchers as m

from fullgraph.minifier.reduce.source.source_tree import SourceTree, TreeEdit, remove_node
from fullgraph.minifier.simplify.variables import HARNESS, arguments_of, mentions


def make_once(tree: SourceTree) -> list[TreeEdit]:
    """Propose to make an input only once if no function may write to it or to a view of it."""
    made: dict[str, list[cst.SimpleStatementLine]] = {}
    for line in tree.module.body:
        match line:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))])]
            ) if name not in HARNESS:
                made.setdefault(name, []).append(line)
    return [
        remove_node(line)
        for name in _names_only_read(tree)
        if name in made and not _is_shared(tree, name, made)
        if len({tree.code(line).strip() for line in made[name]}) == 1
        for line in made[name][1:]
    ]


def _is_shared(tree: SourceTree, name: str, made: dict[str, list[cst.SimpleStatementLine]]) -> bool:
    """Return whether an input is made from another one, or another one from it.

    `made` are the statements that make each input.
    """
    return any(
        mentions(tree, line, mentioned)
        for other in made.keys() - {name}
        for owner, mentioned in ((name, other), (other, name))
        for line in made[owner]
    )


def _names_only_read(tree: SourceTree) -> Iterator[str]:
    """Yield the variables that functions only use as operands or arguments of methods."""
    for function in tree.module.body:
        if isinstance(function, cst.FunctionDef):
            for param, values in arguments_of(tree, function):
                uses = mentions(tree, function.body, param.name.value)
                if all(_is_argument(tree, use) for use in uses):
                    yield from values


def _is_argument(tree: SourceTree, use: cst.Name) -> bool:
    """Return whether a name is an operand, or an argument of a method that does not write to it.

    It may be in a tuple, as `y` in `x.index_put_((y,), x)`.
    """
    for outer in tree.ancestors(use):
        if isinstance(outer, cst.Arg):
            call = tree.parents[outer]
            named = outer.keyword is not None and outer.keyword.value == "out"
            custom = "torch.ops." in tree.code(call)
            return m.matches(call, m.Call(m.Attribute())) and not (named or custom)
        if isinstance(outer, cst.BinaryOperation | cst.UnaryOperation | cst.Comparison):
            return True
        if not isinstance(outer, cst.Element | cst.Tuple | cst.List):
            return False
    return False
