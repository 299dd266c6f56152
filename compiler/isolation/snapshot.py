"""A program's state as it was, to go back to: its objects and the process around them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from types import CodeType

import torch

from fullgraph.compiler.isolation import process_state as ambient
from fullgraph.compiler.isolation.object_graph import Found, Walk
from fullgraph.compiler.private import dynamo_caches as caches
from fullgraph.compiler.private import torch_state as settings


class Snapshot:
    """What `snapshot` saw. It holds a copy of all tensors, on their device where there is room."""

    def __init__(self, objects: Sequence[object]) -> None:
        walk = Walk(objects)
        # a view takes over its base's autograd history when asked for it: bases come first
        self._found = sorted(walk, key=lambda found: _is_view(found.part.target))
        self._unread = tuple(walk.unread)
        self._facts = [(fact, fact.read()) for fact in ambient.facts()]
        self.codes: tuple[CodeType, ...] = tuple(f.__code__ for f in walk.functions)
        """The code of the functions that were reached."""

    def restore(self) -> tuple[str, ...]:
        """Put back what changed; it can be done again and again.

        Returns a sentence for everything that could not be put back or not be read.
        """
        failed = list(self._unread)
        for found in self._found:
            try:
                if found.part.changed(found.state):
                    found.part.write(found.state)
            except Exception as error:
                failed.append(f"{found.path} was changed and cannot be put back: {error}.")
        for fact, value in self._facts:
            try:
                if fact.read() != value:
                    fact.write(value)
            except Exception as error:
                failed.append(f"The {fact.name} cannot be put back: {error}.")
        return tuple(dict.fromkeys(failed))

    def changed(self) -> bool:
        """Whether an object of the program is not as it was, or cannot be looked at."""
        try:
            return any(found.part.changed(found.state) for found in self._found)
        except Exception:
            return True


def snapshot(objects: Sequence[object]) -> Snapshot:
    """The state of `objects`, of all they reach, and of the process: random numbers, modes,
    configuration, environment, logging. What Dynamo compiled is not in it."""
    return Snapshot(objects)


def devices(objects: Sequence[object]) -> frozenset[str]:
    """The types of the devices on which `objects` reach a tensor."""
    found = (found.part.target for found in Walk(objects, memory=False))
    return frozenset(thing.device.type for thing in found if isinstance(thing, torch.Tensor))


def digest(objects: Sequence[object]) -> dict[str, str]:
    """A hash of everything that is to stay as it was, by what it is.

    Tensors and arrays go in byte by byte, objects by identity within the walk, so that two
    digests of the same objects in one process are equal exactly when nothing changed.
    """
    walk = Walk(objects)
    found = list(walk)
    hashes: dict[str, str] = {}
    for one in found:
        title = f"{one.path}: {type(one.part).__name__.lower()}"
        name, number = title, 2
        while name in hashes:
            name, number = f"{title} {number}", number + 1
        hashes[name] = hashlib.sha256(_text(one, walk)).hexdigest()
    for fact in ambient.facts():
        hashes[fact.name] = hashlib.sha256(fact.show(fact.read()).encode()).hexdigest()
    codes = [function.__code__ for function in walk.functions]
    return hashes | caches.Caches(codes).summary()


def _is_view(thing: object) -> bool:
    with settings.no_overrides():
        return isinstance(thing, torch.Tensor) and thing._is_view()


def _text(found: Found, walk: Walk) -> bytes:
    """What `found` consists of."""
    told = []
    for name, child in found.part.children(found.state):
        number = walk.number(child)
        told.append(f"{name}={child!r}" if number is None else f"{name}=#{number}")
    if isinstance(found.part.target, set | frozenset):
        told.sort()
    kind = type(found.part).__name__
    return "\0".join((kind, *told)).encode() + found.part.content(found.state)
