"""Numbers that become small, equal ones together; strings that become empty."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from fullgraph.minifier.reduce.search import smallest
from fullgraph.minifier.reduce.source.search import Search
from fullgraph.minifier.reduce.source.tree import Edit, Now, Replacement, Tree, put


def reduce_constants(search: Search) -> None:
    """Make integers 1, else 2, else as small as a search finds; floats 1; strings empty."""
    search.split(tied(cst.Integer, "1", above=1))
    search.split(tied(cst.Integer, "2", above=2))
    for value in sorted(_values(search.tree), reverse=True):
        tree = search.tree
        nodes = [node for node in tree.of(cst.Integer) if node.evaluated_value == value]

        def instead(new: int, tree: Tree = tree, nodes: list[cst.Integer] = nodes) -> list[str]:
            text = search.edited(tree, [_all(tree, nodes, str(new))])
            return [] if text is None else [text]

        smallest(search.problem, 3, value, instead, leap=1)
    search.split(tied(cst.Float, "1.0"))
    search.split(strings)


def singly(tree: Tree) -> list[Edit]:
    """Each number by itself, towards 1 and 0."""
    found = []
    for node in tree.of(cst.Integer):
        if node.evaluated_value > 1:
            found.append(put(tree, node, "1"))
    for node in tree.of(cst.Integer):
        if node.evaluated_value == 1:
            found.append(put(tree, node, "0"))
    return found


def tied(
    kind: type[cst.Integer] | type[cst.Float], text: str, above: float | None = None
) -> Callable[[Tree], list[Edit]]:
    """For each number of a kind one edit that writes `text` wherever it stands."""

    def propose(tree: Tree) -> list[Edit]:
        groups: dict[str, list[cst.BaseExpression]] = {}
        numbers: list[cst.Integer | cst.Float] = [*tree.of(kind)]
        for node in numbers:
            value = node.evaluated_value
            if (value > above) if above is not None else value not in (0.0, 1.0):
                groups.setdefault(node.value, []).append(node)
        return [_all(tree, nodes, text) for nodes in groups.values()]

    return propose


def strings(tree: Tree) -> list[Edit]:
    """Every string that says something, empty."""
    return [
        put(tree, node, '""')
        for node in tree.of(cst.SimpleString)
        if len(node.raw_value) > 1 and not isinstance(tree.parents[node], cst.Expr)
    ]


def _all(tree: Tree, nodes: Sequence[cst.BaseExpression], text: str) -> Edit:
    changes: dict[cst.CSTNode, Callable[[Now], Replacement]] = {}
    for node in nodes:
        changes.update(put(tree, node, text).changes)
    return Edit(changes)


def _values(tree: Tree) -> set[int]:
    return {node.evaluated_value for node in tree.of(cst.Integer) if node.evaluated_value > 3}
