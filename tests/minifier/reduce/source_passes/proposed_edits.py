"""Texts with one proposed edit each."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

from fullgraph.minifier.reduce.source.source_tree import SourceTree, TreeEdit


def clean(text: str) -> str:
    return textwrap.dedent(text).strip("\n") + "\n"


def proposed(propose: Callable[[SourceTree], Sequence[TreeEdit]], text: str) -> list[str]:
    """What each proposal makes of a text."""
    tree = SourceTree(clean(text))
    return [tree.with_edits([edit]) for edit in propose(tree)]


def together(propose: Callable[[SourceTree], Sequence[TreeEdit]], text: str) -> str:
    """What all proposals together make of a text."""
    tree = SourceTree(clean(text))
    return tree.with_edits(propose(tree))
