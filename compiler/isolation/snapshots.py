"""Snapshots of a program's objects and of the process, which can be restored."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from types import CodeType

import torch

from fullgraph.compiler.isolation.object_graph import FoundPart, ObjectWalk
from fullgraph.compiler.isolation.process_state import process_states
from fullgraph.compiler.private import DynamoCaches, disable_torch_function


class Snapshot:
    """Copy of the state of objects and of the process, which `restore` puts back.

    Copies of tensors are on the tensors' device, or on the CPU if the device is full.
    """

    def __init__(self, objects: Sequence[object]) -> None:
        walk = ObjectWalk(objects)
        # reading a view's history gives it that of its base: restore bases first
        self._found = sorted(walk, key=lambda found: _is_view(found.part.target))
        self._unread = tuple(walk.unread)
        self._process = [(each, each.read()) for each in process_states()]
        self.codes: tuple[CodeType, ...] = tuple(f.__code__ for f in walk.functions)
        """Code objects of the functions reachable from the objects."""

    def restore(self) -> tuple[str, ...]:
        """Restore what changed; return a sentence for each part that could not be restored or read.

        A snapshot can be restored any number of times.
        """
        failed = list(self._unread)
        for found in self._found:
            try:
                if found.part.changed(found.state):
                    found.part.write(found.state)
            except Exception as error:
                failed.append(f"{found.path} was changed and cannot be put back: {error}.")
        for each, value in self._process:
            try:
                if each.read() != value:
                    each.write(value)
            except Exception as error:
                failed.append(f"The {each.name} cannot be put back: {error}.")
        return tuple(dict.fromkeys(failed))

    def has_changed(self) -> bool:
        """Return whether an object has changed or cannot be read; does not look at the process."""
        try:
            return any(found.part.changed(found.state) for found in self._found)
        except Exception:
            return True


def snapshot(objects: Sequence[object]) -> Snapshot:
    """Record `objects`, everything reachable from them, and the state of the process.

    Process state is random numbers, modes, configuration, environment and logging. Dynamo's caches
    are not part of it.
    """
    return Snapshot(objects)


def devices_of(objects: Sequence[object]) -> frozenset[str]:
    """Return the types of the devices of all tensors reachable from `objects`."""
    found = (found.part.target for found in ObjectWalk(objects, memory=False))
    return frozenset(thing.device.type for thing in found if isinstance(thing, torch.Tensor))


def state_digest(objects: Sequence[object]) -> dict[str, str]:
    """Return a hash of each thing that isolation must leave unchanged, by its description.

    A description is "Net.layers: items" or "grad mode". Tensors and arrays are hashed by their
    bytes, references by the order in which the walk reaches their objects. In one process, two
    digests of the same objects are equal if nothing changed, and only then.
    """
    walk = ObjectWalk(objects)
    found = list(walk)
    hashes: dict[str, str] = {}
    for one in found:
        title = f"{one.path}: {one.part.kind}"
        name, number = title, 2
        while name in hashes:
            name, number = f"{title} {number}", number + 1
        hashes[name] = hashlib.sha256(_digest_of(one, walk)).hexdigest()
    for each in process_states():
        hashes[each.name] = hashlib.sha256(each.show(each.read()).encode()).hexdigest()
    codes = [function.__code__ for function in walk.functions]
    return hashes | DynamoCaches(codes).summary()


def _is_view(thing: object) -> bool:
    """Return whether an object is a tensor that is a view of another one."""
    with disable_torch_function():
        return isinstance(thing, torch.Tensor) and thing._is_view()


def _digest_of(found: FoundPart, walk: ObjectWalk) -> bytes:
    """Return the content of a part as bytes, with a number in place of each object it refers to.

    `walk`, which found the part, numbers the objects.
    """
    children = []
    for name, child in found.part.children(found.state):
        number = walk.index_of(child)
        children.append(f"{name}={child!r}" if number is None else f"{name}=#{number}")
    if isinstance(found.part.target, set | frozenset):
        children.sort()
    kind = found.part.kind
    return "\0".join((kind, *children)).encode() + found.part.digest_content(found.state)
