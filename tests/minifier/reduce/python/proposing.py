"""Texts with one proposed edit each."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

from fullgraph.minifier.reduce.source.tree import Edit, Tree


def clean(text: str) -> str:
    return textwrap.dedent(text).strip("\n") + "\n"


def proposed(propose: Callable[[Tree], Sequence[Edit]], text: str) -> list[str]:
    """What each proposal makes of a text."""
    tree = Tree(clean(text))
    return [tree.edited([edit]) for edit in propose(tree)]


def together(propose: Callable[[Tree], Sequence[Edit]], text: str) -> str:
    """What all proposals together make of a text."""
    tree = Tree(clean(text))
    return tree.edited(propose(tree))
