"""Nested containers, as torch's own functions see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils import _pytree


def tree_leaves(tree: Any) -> list[Any]:
    """What the containers of `tree` hold, in order; registered classes are containers too."""
    return list(_pytree.tree_leaves(tree))


def tree_map(change: Callable[[Any], Any], tree: Any) -> Any:
    """A copy of the containers of `tree` with `change` applied to what they hold."""
    return _pytree.tree_map(change, tree)


def named_tree_leaves(tree: Any) -> list[tuple[str, Any]]:
    """What the containers of `tree` hold, each with the way to it: "[0]", "['logits']", ""."""
    found, _ = _pytree.tree_flatten_with_path(tree)
    return [(_pytree.keystr(path), leaf) for path, leaf in found]


def container_types(tree: Any) -> list[tuple[str, type]]:
    """The classes of the containers of `tree`, each with the way to it, the outermost first."""
    parts, spec = _pytree.tree_flatten_with_path(tree, is_leaf=lambda part: part is not tree)
    if spec.is_leaf():
        return []
    inner = [
        (_pytree.keystr(way) + rest, kind)
        for way, part in parts
        for rest, kind in container_types(part)
    ]
    return [("", type(tree)), *inner]
