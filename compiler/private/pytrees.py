"""Nested containers as pytrees; registered classes are containers, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils import _pytree


def tree_leaves(tree: object) -> list[object]:
    """Return the leaves of a pytree, in order."""
    return list(_pytree.tree_leaves(tree))


def tree_map(change: Callable[[object], object], tree: object) -> Any:
    """Return a copy of a pytree with `change` applied to each leaf."""
    return _pytree.tree_map(change, tree)


def named_tree_leaves(tree: object) -> list[tuple[str, object]]:
    """Return (key path, leaf) for each leaf of a pytree.

    A key path is "[0]" or "['logits']"; "" if the tree is itself a leaf.
    """
    found, _ = _pytree.tree_flatten_with_path(tree)
    return [(_pytree.keystr(path), leaf) for path, leaf in found]


def container_types(tree: object) -> list[tuple[str, type]]:
    """Return (key path, class) for each container of a pytree, outermost first."""
    parts, spec = _pytree.tree_flatten_with_path(tree, is_leaf=lambda part: part is not tree)
    if spec.is_leaf():
        return []
    inner = [
        (_pytree.keystr(path) + rest, kind)
        for path, part in parts
        for rest, kind in container_types(part)
    ]
    return [("", type(tree)), *inner]
