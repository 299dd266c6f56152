"""Proposals for inputs: the second call gets the same ones if nothing writes to them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst import matchers as m

from fullgraph.minifier.reduce.source.source_tree import SourceTree, TreeEdit, remove_node
from fullgraph.minifier.simplify.variables import HARNESS, arguments_of, mentions


def make_once(tree: SourceTree) -> list[TreeEdit]:
    """Propose that a script makes an input once, not before each of its two calls.

    The second assignment is removed if it equals the first and if no function may write to the
    input or to a view of it.
    """
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
    """Return whether the input `name` is computed from another input, or another one from it.

    `made` has the statements that assign each input.
    """
    return any(
        mentions(tree, line, mentioned)
        for other in made.keys() - {name}
        for owner, mentioned in ((name, other), (other, name))
        for line in made[owner]
    )


def _names_only_read(tree: SourceTree) -> Iterator[str]:
    """Yield the variables passed to functions that only read them.

    That is, the function uses its parameter only as an operand, or as an argument of a method.
    """
    for function in tree.module.body:
        if isinstance(function, cst.FunctionDef):
            for param, values in arguments_of(tree, function):
                uses = mentions(tree, function.body, param.name.value)
                if all(_is_read_only_use(tree, use) for use in uses):
                    yield from values


def _is_read_only_use(tree: SourceTree, use: cst.Name) -> bool:
    """Return whether a name is used without a write: as an operand, or an argument of a method.

    False for `out=x` and for custom operators. The name may be in a tuple, as `y` in
    `x.index_put_((y,), x)`.
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
