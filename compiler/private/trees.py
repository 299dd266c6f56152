"""Nested containers, as torch's own functions see them."""

from __future__ import annotations

from typing import Any

from torch.utils import _pytree


def leaves(tree: Any) -> list[Any]:
    """What the containers of `tree` hold, in order; registered classes are containers too."""
    return list(_pytree.tree_leaves(tree))
