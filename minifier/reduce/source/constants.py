"""Reducer of constants: integers become small, floats 1, strings empty."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from fullgraph.minifier.reduce.source.proposals import ProposalSearch
from fullgraph.minifier.reduce.source.source_tree import (
    Changes,
    SourceTree,
    TreeEdit,
    replace_expression,
)
from fullgraph.minifier.reduce.subsets import find_smallest


def reduce_constants(search: ProposalSearch) -> None:
    """Replace constants of the current text by plain ones while it fails.

    Integers become 1, 2, or else as small as possible; floats become 1.0, strings empty.
    """
    search.apply_most(equal_numbers(cst.Integer, "1", above=1))
    search.apply_most(equal_numbers(cst.Integer, "2", above=2))
    for value in sorted(_integers_of(search.tree), reverse=True):
        tree = search.tree
        nodes = [node for node in tree.nodes_of_kind(cst.Integer) if node.evaluated_value == value]

        def replacements(
            new: int, tree: SourceTree = tree, nodes: list[cst.Integer] = nodes
        ) -> list[str]:
            """Return the text with the integers replaced by `new`."""
            text = search.with_edits(tree, [_replace_all(tree, nodes, str(new))])
            return [] if text is None else [text]

        find_smallest(search.problem, 3, value, replacements, leap=1)
    search.apply_most(equal_numbers(cst.Float, "1.0"))
    search.apply_most(empty_strings)


def single_integers(tree: SourceTree) -> list[TreeEdit]:
    """Propose 1 in place of each larger integer, then 0 in place of each 1, one per edit."""
    found = []
    for node in tree.nodes_of_kind(cst.Integer):
        if node.evaluated_value > 1:
            found.append(replace_expression(tree, node, "1"))
    for node in tree.nodes_of_kind(cst.Integer):
        if node.evaluated_value == 1:
            found.append(replace_expression(tree, node, "0"))
    return found


def equal_numbers(
    kind: type[cst.Integer] | type[cst.Float], text: str, above: float | None = None
) -> Callable[[SourceTree], list[TreeEdit]]:
    """Return a proposer that replaces numbers by `text`: all 7s in one edit, all 8s in another.

    `kind` is the class of the numbers. Only those greater than `above` are replaced; None: all
    except 0 and 1.
    """

    def propose(tree: SourceTree) -> list[TreeEdit]:
        """Propose one edit for each value, which replaces all numbers of that value."""
        groups: dict[str, list[cst.BaseExpression]] = {}
        numbers: list[cst.Integer | cst.Float] = [*tree.nodes_of_kind(kind)]
        for node in numbers:
            value = node.evaluated_value
            if (value > above) if above is not None else value not in (0.0, 1.0):
                groups.setdefault(node.value, []).append(node)
        return [_replace_all(tree, nodes, text) for nodes in groups.values()]

    return propose


def empty_strings(tree: SourceTree) -> list[TreeEdit]:
    """Propose `""` in place of each string of two or more characters that is no docstring."""
    return [
        replace_expression(tree, node, '""')
        for node in tree.nodes_of_kind(cst.SimpleString)
        if len(node.raw_value) > 1 and not isinstance(tree.parents[node], cst.Expr)
    ]


def _replace_all(tree: SourceTree, nodes: Sequence[cst.BaseExpression], text: str) -> TreeEdit:
    """Return the edit that replaces each of several nodes by the same text."""
    changes: Changes = {}
    for node in nodes:
        changes.update(replace_expression(tree, node, text).changes)
    return TreeEdit(changes)


def _integers_of(tree: SourceTree) -> set[int]:
    """Return the integers above 3 in a source text, each once."""
    return {
        node.evaluated_value for node in tree.nodes_of_kind(cst.Integer) if node.evaluated_value > 3
    }
