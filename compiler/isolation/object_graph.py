"""Walks over the objects reachable from a program, one state part at a time.

A walk follows containers, nn.Modules, tensors, arrays, plain objects, functions (closures, defaults
and the globals that the user's code names) and the user's own classes. It does not follow Python
modules, the code of installed packages, threads, locks, sockets, loggers, and the contents of C
objects.
"""

from __future__ import annotations

import dis
import enum
import functools
import itertools
import operator
import random
import re
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fullgraph.compiler.isolation import state_parts as parts
from fullgraph.compiler.isolation.state_parts import StatePart
from fullgraph.compiler.isolation.tensor_parts import StoragePart, TensorPart
from fullgraph.compiler.sources import Owner, owner_of

_ATOMS = (
    *(bool, int, float, complex, str, bytes, range, slice, enum.Enum, type(None), type(...)),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
    *(types.ModuleType, types.CodeType, types.BuiltinFunctionType),
)
_OPAQUE = (
    *("torch._", "_thread", "threading", "logging", "weakref", "asyncio", "concurrent."),
    *("multiprocessing.", "socket", "IPython.", "ipykernel.", "zmq."),
)
"""Prefixes of modules whose objects belong to the process, not to a program."""
_MODULE_DICTS = re.compile(r"\._(?:parameters|buffers|modules)\['([^']*)'\]")
_LRU_CACHE = type(functools.cache(len))
_ITERABLES: tuple[Iterable[object], ...] = ([], (), "", {}, set(), range(0), reversed([]))
_ITERATORS = tuple(type(iter(one)) for one in _ITERABLES)


@dataclass(frozen=True)
class FoundPart:
    """Part of an object that an `ObjectWalk` found, and its state at that time.

    `expression` is Python for the object: "Net._modules['layers']".
    """

    expression: str
    """Python expression for the object: "Net._modules['layers']"."""
    part: StatePart[object]
    state: object

    @property
    def path(self) -> str:
        """Path of the object for people: "Net.layers.0.weight"."""
        return _readable_path(self.expression)


class ObjectWalk:
    """Iterator over the state of all objects reachable from `objects`, each object once.

    It yields a `FoundPart` for each part of an object, such as the items of a list.
    """

    def __init__(self, objects: Sequence[object], *, memory: bool = True) -> None:
        """Prepare the walk; without `memory`, it skips the elements of tensors and arrays."""
        self._memory = memory
        self._indices: dict[int, int] = {}
        self._alive: list[object] = []  # else an id could be reused
        self._waiting: deque[tuple[str, object]] = deque()
        self.unread: list[str] = []
        """A sentence for each part that could not be read."""
        for number, thing in enumerate(objects):
            self._add(_root_expression(number, thing), thing)

    def __iter__(self) -> Iterator[FoundPart]:
        while self._waiting:
            path, thing = self._waiting.popleft()
            for part in _parts(thing):
                if not self._memory and isinstance(part, StoragePart | parts.ArrayPart):
                    continue
                try:
                    state = part.read()
                    children = list(part.children(state))
                except Exception as error:
                    kind = type(thing).__qualname__
                    self.unread.append(
                        f"Whether {_readable_path(path)} changed is not known: {kind}: {error}."
                    )
                    continue
                for suffix, child in children:
                    self._add(path + suffix, child)
                yield FoundPart(path, part, state)

    @property
    def functions(self) -> list[types.FunctionType]:
        """The functions reached so far."""
        return [thing for thing in self._alive if isinstance(thing, types.FunctionType)]

    @property
    def reached(self) -> list[object]:
        """The objects reached so far, in order."""
        return list(self._alive)

    def index_of(self, thing: object) -> int | None:
        """Return the index of an object in this walk; None if the walk has not reached it."""
        return self._indices.get(id(thing))

    def _add(self, path: str, thing: object) -> None:
        """Queue an object, unless it is one of `_ATOMS` or already reached."""
        if isinstance(thing, _ATOMS) or id(thing) in self._indices:
            return
        self._indices[id(thing)] = len(self._indices)
        self._alive.append(thing)
        self._waiting.append((path, thing))


def references(thing: object) -> list[tuple[str, object]]:
    """Return the objects that `thing` refers to, each with its path suffix: [(".weight", …)].

    Numbers, strings and other atoms are left out. The list is empty for tensors and classes.
    """
    if isinstance(thing, torch.Tensor | type):
        return []
    found: list[tuple[str, object]] = []
    for part in _parts(thing):
        if isinstance(part, _ClassPart):
            continue
        try:
            found += part.children(part.read())
        except Exception:  # an object may lie about its class, or refuse
            continue
    return [(suffix, child) for suffix, child in found if not isinstance(child, _ATOMS)]


def _readable_path(expression: str) -> str:
    """Shorten "._parameters['weight']" to ".weight"."""
    return _MODULE_DICTS.sub(r".\1", expression)


def _root_expression(number: int, thing: object) -> str:
    """Return the name with which all paths from an object begin: "Net", "forward", "objects[2]".

    It is the class name of a module, the qualified name of a function or class, and otherwise
    "objects[2]", where 2 is `number`, the object's index.
    """
    if isinstance(thing, torch.nn.Module):
        return type(thing).__name__
    return getattr(thing, "__qualname__", f"objects[{number}]")


def _parts(thing: object) -> list[StatePart[Any]]:
    """Return the parts of `thing` whose state can be read, such as the items of a list.

    [] if the walk does not look inside `thing`.
    """
    if isinstance(thing, torch.Tensor):
        return [TensorPart(thing), *_attribute_parts(thing), _ClassPart(thing)]
    if isinstance(thing, torch.UntypedStorage):
        return [StoragePart(thing)]
    if isinstance(thing, list | deque | set):
        return [parts.ItemsPart(thing), *_attribute_parts(thing)]
    if isinstance(thing, tuple | frozenset):
        return [_ImmutableItemsPart(thing), *_attribute_parts(thing)]
    if isinstance(thing, dict):
        return [parts.EntriesPart(thing), *_attribute_parts(thing)]
    if isinstance(thing, type):
        return [parts.ClassAttributesPart(thing)] if _is_users_class(thing) else []
    if isinstance(thing, types.FunctionType):
        return _function_parts(thing)
    if isinstance(thing, types.CellType):
        return [parts.CellPart(thing)]
    wrapped = _wrapped_names(thing)
    if wrapped:
        return [parts.NamedAttributesPart(thing, wrapped), *_attribute_parts(thing)]
    state = _getter_part(thing)
    if state is not None:
        return [state, *_attribute_parts(thing)]
    if _is_opaque(type(thing)) and not isinstance(thing, torch.nn.Module):
        return []
    return [*_attribute_parts(thing), _ClassPart(thing)]


class _ImmutableItemsPart(parts.ItemsPart):
    """Items of a tuple or frozenset, which cannot change."""

    kind = "_fixed"

    def equal_states(self, one: object, other: object) -> bool:
        """Return True, because the items cannot change."""
        return True


class _ClassPart(parts.NamedPart):
    """Step from an object to its class, in a search through an object graph."""

    kind = "_class"

    def read(self) -> parts.NamedObjects:
        """Return the class with the suffix "'s class"."""
        return (("'s class", type(self.target)),)

    def write(self, state: parts.NamedObjects) -> None:
        """Assign the class to `__class__` again."""
        self.target.__class__ = state[0][1]


def _attribute_parts(thing: object) -> list[StatePart[object]]:
    """Return parts for the `__dict__` and the slots of an object; [] if it has neither."""
    found: list[StatePart[Any]] = []
    if isinstance(getattr(thing, "__dict__", None), dict):
        found.append(parts.AttributesPart(thing))
    slots = _slot_names(type(thing))
    if slots:
        found.append(parts.NamedAttributesPart(thing, slots))
    return found


def _slot_names(kind: type) -> tuple[str, ...]:
    """Return the names of the slots that `kind` and its bases define.

    Slots of classes that the walk does not look into, such as those of `threading`, are left out.
    """
    return tuple(
        name
        for one in kind.__mro__
        if "__slots__" in vars(one) and not _is_opaque(one)
        for name, slot in vars(one).items()
        if isinstance(slot, types.MemberDescriptorType)
    )


def _function_parts(function: types.FunctionType) -> list[StatePart[object]]:
    """Return the state parts of a function: its defaults, attributes and closure cells.

    If its file is the user's, they include the globals that the function uses, and the attributes
    that it uses of the user's modules, such as `scale` in `settings.scale`.
    """
    found: list[StatePart[Any]] = [
        parts.NamedAttributesPart(function, ("__defaults__", "__kwdefaults__")),
        parts.AttributesPart(function),
        *(parts.CellPart(cell) for cell in function.__closure__ or ()),
    ]
    if _is_users(function.__code__.co_filename):
        space = function.__globals__
        found.append(parts.GlobalsPart(space, _global_names(function.__code__)))
        for name in _global_names(function.__code__):
            module = space.get(name)
            if isinstance(module, types.ModuleType) and _is_users(_file_of(module)):
                used = _attribute_names(function.__code__) & vars(module).keys()
                found.append(parts.GlobalsPart(vars(module), used))
    return found


def _global_names(code: types.CodeType) -> frozenset[str]:
    """Return the global names that `code` and its inner functions use."""
    own = (i.argval for i in dis.get_instructions(code) if i.opname.endswith("_GLOBAL"))
    return frozenset(own).union(*map(_global_names, _inner_codes(code)))


def _attribute_names(code: types.CodeType) -> frozenset[str]:
    """Return the names that `code` and its inner functions use as attributes or globals."""
    return frozenset(code.co_names).union(*map(_attribute_names, _inner_codes(code)))


def _inner_codes(code: types.CodeType) -> list[types.CodeType]:
    """Return the code objects of the functions defined directly in `code`."""
    return [const for const in code.co_consts if isinstance(const, types.CodeType)]


def _wrapped_names(thing: object) -> tuple[str, ...]:
    """Return the attributes in which a wrapper holds its objects: ("__self__", "__func__").

    Wrappers are methods, partials, static methods, class methods and properties. () for any other
    object.
    """
    if isinstance(thing, types.MethodType):
        return "__self__", "__func__"
    if isinstance(thing, functools.partial):
        return "func", "args", "keywords"
    if isinstance(thing, staticmethod | classmethod):
        return ("__func__",)
    if isinstance(thing, property):
        return "fget", "fset", "fdel"
    return ()


def _getter_part(thing: object) -> StatePart[Any] | None:
    """Return the part of an object whose state can only be read by a call; None for others.

    Such objects are random generators, iterators and functions with a cache.
    """
    if isinstance(thing, torch.Generator):
        return parts.GetterPart(
            thing,
            lambda: (bytes(thing.get_state()), thing.initial_seed()),
            lambda state: thing.set_state(torch.tensor(list(state[0]), dtype=torch.uint8)),
        )
    if isinstance(thing, random.Random):
        return parts.GetterPart(thing, thing.getstate, thing.setstate)
    if isinstance(thing, bytearray):
        return parts.GetterPart(
            thing, lambda: bytes(thing), lambda s: thing.__setitem__(slice(None), s)
        )
    if isinstance(thing, types.GeneratorType):
        return parts.GetterPart(thing, lambda: thing.gi_frame and thing.gi_frame.f_lasti)
    if isinstance(thing, _ITERATORS):
        return parts.GetterPart(thing, lambda: operator.length_hint(thing))
    if isinstance(thing, itertools.count):
        return parts.GetterPart(thing, lambda: repr(thing))
    if isinstance(thing, _LRU_CACHE):
        return parts.GetterPart(
            thing, lambda: thing.cache_info().currsize, functools.partial(_empty_cache, thing)
        )
    return _numpy_part(thing)


def _empty_cache(function: Any, size: int) -> None:
    """Empty the cache of a function, made by `lru_cache`, that had `size` results before the job.

    Raises TypeError if `size` is not 0, because cached results cannot be put back.
    """
    if size:
        raise TypeError("the results in a cache cannot be put back")
    function.cache_clear()


def _numpy_part(thing: object) -> StatePart[object] | None:
    """Return the part of a NumPy array or random generator; None for other objects."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(thing, numpy.ndarray):
        return parts.ArrayPart(thing)
    if isinstance(thing, numpy.random.RandomState):
        return parts.GetterPart(thing, thing.get_state, thing.set_state)
    if isinstance(thing, numpy.random.Generator):
        thing = thing.bit_generator
    if isinstance(thing, numpy.random.BitGenerator):
        bits = thing
        return parts.GetterPart(
            bits, lambda: bits.state, lambda state: setattr(bits, "state", state)
        )
    return None


def _is_opaque(kind: type) -> bool:
    return str(kind.__module__).startswith(_OPAQUE)


def _is_users(file: str) -> bool:
    """Return whether `file` holds the user's code.

    True also for a made-up name such as "<string>", the file of `exec`; False for "<frozen os>".
    """
    return owner_of(file) is Owner.USER or (file.startswith("<") and not file.startswith("<frozen"))


def _file_of(module: types.ModuleType | None) -> str:
    return getattr(module, "__file__", None) or "<frozen>"


def _is_users_class(kind: type) -> bool:
    """Return whether a class is defined in a file of the user's."""
    if kind.__module__ == "__main__":
        return True
    return _is_users(_file_of(sys.modules.get(kind.__module__)))
