"""Containers and tensors that a program holds in several places."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence

import torch

from fullgraph.compiler.isolation import references

_WITH_IDENTITY = (list, dict, set, deque, torch.Tensor)
"""Types whose values are written as literals where they are used, unless they are shared."""


class SharedObjects:
    """The containers and tensors of a program to which more than one reference exists."""

    def __init__(self, roots: Sequence[object]) -> None:
        self._held: dict[int, object] = {}
        """Every object reached, by id; kept alive so that ids stay unique."""
        self._paths: dict[int, list[str]] = {}
        """The paths by which each container or tensor is reached, by id."""
        for path, child in _walk(roots, self._held):
            if type(child) in _WITH_IDENTITY:
                self._paths.setdefault(id(child), []).append(path)

    def __contains__(self, thing: object) -> bool:
        return len(self._paths.get(id(thing), ())) > 1

    def __bool__(self) -> bool:
        return any(len(paths) > 1 for paths in self._paths.values())

    @property
    def places(self) -> frozenset[frozenset[str]]:
        """The paths of each shared object; equal for two programs that share in the same places."""
        return frozenset(frozenset(paths) for paths in self._paths.values() if len(paths) > 1)

    def name_of(self, thing: object) -> str:
        """Return the name of an attribute or variable that holds an object, or "shared"."""
        for path in self._paths.get(id(thing), ()):
            found = re.search(r"([a-zA-Z]\w*)(?:\.cell_contents)?$", path)
            if found and found[1] not in ("cell_contents", "key"):
                return found[1]
        return "shared"


def _walk(roots: Sequence[object], held: dict[int, object]) -> Iterator[tuple[str, object]]:
    """Yield (path, object) for each reference reachable from `roots`, such as ("0.weight", …).

    The path begins with the position in `roots`. Adds every object to `held`, by id.
    """
    waiting = deque((str(number), root) for number, root in enumerate(roots))
    held.update((id(root), root) for root in roots)
    while waiting:
        path, thing = waiting.popleft()
        for suffix, child in references(thing):
            yield path + suffix, child
            if id(child) not in held:
                held[id(child)] = child
                waiting.append((path + suffix, child))
