"""Snapshots of a program's objects and of the process, which can be restored."""

from __future__ import annotations

import copyreg
import hashlib
import pickle
from collections import deque
from collections.abc import Sequence
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType

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


_REACHED = (
    *(torch.nn.Module, torch.Tensor, torch.UntypedStorage, type, list, tuple, dict, set, frozenset),
    *(deque, CellType, MethodType, property, staticmethod, classmethod),
)
"""Classes of whose objects the walk reads all that a program can see."""


def state_digest(objects: Sequence[object]) -> dict[str, str]:
    """Return a hash of each thing that isolation must leave unchanged, by its description.

    A description is "Net.layers: items" or "grad mode". Tensors and arrays are hashed by their
    bytes, references by the order in which the walk reaches their objects. In one process, two
    digests of the same objects are equal if nothing changed, and only then.
    """
    walk = ObjectWalk(objects)
    hashes = _hash_content(walk)
    for each in process_states():
        hashes[each.name] = hashlib.sha256(each.show(each.read()).encode()).hexdigest()
    codes = [function.__code__ for function in walk.functions]
    return hashes | DynamoCaches(codes).summary()


def portable_digest(objects: Sequence[object]) -> str:
    """Return a digest of the content of all that `objects` reach, and of their classes and code.

    It tells one program from another in any process. Raises TypeError for an object whose content
    Python cannot reach, such as one of a C extension that cannot be pickled.
    """
    walk = ObjectWalk(objects)
    found = hashlib.sha256(repr(_hash_content(walk)).encode())
    for thing in walk.reached:
        kind = type(thing)
        text = f"{kind.__module__}.{kind.__qualname__}"
        if isinstance(thing, FunctionType | type):
            text += f" {thing.__module__}.{thing.__qualname__}"
        if isinstance(thing, FunctionType):
            text += atom_text(thing.__code__)
        elif not isinstance(thing, _REACHED):
            reducer = copyreg.dispatch_table.get(kind)
            reduced = reducer(thing) if reducer else thing.__reduce_ex__(4)  # tells what C hides
            parts = reduced[1:3] if isinstance(reduced, tuple) else (reduced,)
            text += f" {[_part_text(part, thing, walk) for part in parts]}"
        found.update(f"{text}\0".encode())
    return found.hexdigest()


def _part_text(part: object, thing: object, walk: ObjectWalk) -> str:
    """Return what makes `thing` anew, its arguments or its state; what the walk reached by number.

    The walk reads the attributes of an object itself.
    """
    if part is getattr(thing, "__dict__", walk):
        return "its attributes"
    if isinstance(part, tuple):
        return f"{[_part_text(one, thing, walk) for one in part]}"
    if (number := walk.index_of(part)) is not None:
        return f"#{number}"
    if isinstance(part, FunctionType | type):
        return f"{part.__module__}.{part.__qualname__}"
    return pickle.dumps(part).hex()


def _hash_content(walk: ObjectWalk) -> dict[str, str]:
    """Return a hash of each part that a walk finds, by its description."""
    hashes: dict[str, str] = {}
    for one in list(walk):
        title = f"{one.path}: {one.part.kind}"
        name, number = title, 2
        while name in hashes:
            name, number = f"{title} {number}", number + 1
        hashes[name] = hashlib.sha256(_digest_of(one, walk)).hexdigest()
    return hashes


def _is_view(thing: object) -> bool:
    """Return whether an object is a tensor that is a view of another one."""
    with disable_torch_function():
        return isinstance(thing, torch.Tensor) and thing._is_view()


def atom_text(value: object) -> str:
    """Return the `repr` of a value without state, by name and code in place of an address."""
    if isinstance(value, CodeType):
        inner = [sorted(c, key=repr) if isinstance(c, frozenset) else c for c in value.co_consts]
        names = value.co_qualname, value.co_names, value.co_varnames, value.co_freevars
        return f"{names} {value.co_code.hex()} {[atom_text(one) for one in inner]}"
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, BuiltinFunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    return repr(value)


def _digest_of(found: FoundPart, walk: ObjectWalk) -> bytes:
    """Return the content of a part as bytes, with a number in place of each object it refers to.

    `walk`, which found the part, numbers the objects.
    """
    children = []
    for name, child in found.part.children(found.state):
        number = walk.index_of(child)
        children.append(f"{name}={atom_text(child)}" if number is None else f"{name}=#{number}")
    if isinstance(found.part.target, set | frozenset):
        children.sort()
    kind = found.part.kind
    return "\0".join((kind, *children)).encode() + found.part.digest_content(found.state)
