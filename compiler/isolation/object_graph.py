"""What a program can reach from its objects, one part at a time.

Followed are containers, nn.Modules, tensors, arrays, plain objects, functions (closures, defaults
and those globals that the user's code names) and the user's own classes. Not followed are Python
modules, the code of installed packages, threads, locks, sockets, loggers, and whatever C objects
hide.
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
from fullgraph.compiler.isolation.state_parts import Part
from fullgraph.compiler.sources.ownership import Owner, owner

_ATOMS = (
    *(bool, int, float, complex, str, bytes, range, slice, enum.Enum, type(None), type(...)),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
    *(types.ModuleType, types.CodeType, types.BuiltinFunctionType),
)
_OPAQUE = (
    *("torch._", "_thread", "threading", "logging", "weakref", "asyncio", "concurrent."),
    *("multiprocessing.", "socket", "IPython.", "ipykernel.", "zmq."),
)
"""How the modules begin whose objects belong to the process, not to a program."""
_MODULE_DICTS = re.compile(r"\._(?:parameters|buffers|modules)\['([^']*)'\]")
_LRU_CACHE = type(functools.cache(len))
_ITERABLES: tuple[Iterable[Any], ...] = ([], (), "", {}, set(), range(0), reversed([]))
_ITERATORS = tuple(type(iter(one)) for one in _ITERABLES)


@dataclass(frozen=True)
class Found:
    """A part, and its state when it was found."""

    way: str
    """How it is reached, as an expression."""
    part: Part
    state: Any

    @property
    def path(self) -> str:
        """How it is reached, for people: "Net.layers.0.weight"."""
        return _path(self.way)


class Walk:
    """Everything that can be reached from `objects`, each thing once."""

    def __init__(self, objects: Sequence[object], *, memory: bool = True) -> None:
        """`memory`: whether the bytes of tensors and arrays are read too."""
        self._memory = memory
        self._numbers: dict[int, int] = {}
        self._alive: list[object] = []  # else an id could come up twice
        self._waiting: deque[tuple[str, object]] = deque()
        self.unread: list[str] = []
        """A sentence for each part that would not be read."""
        for number, thing in enumerate(objects):
            self._add(_root(number, thing), thing)

    def __iter__(self) -> Iterator[Found]:
        while self._waiting:
            path, thing = self._waiting.popleft()
            for part in _parts(thing):
                if not self._memory and isinstance(part, parts.Memory | parts.Array):
                    continue
                try:
                    state = part.read()
                    children = list(part.children(state))
                except Exception as error:
                    kind = type(thing).__qualname__
                    self.unread.append(
                        f"Whether {_path(path)} changed is not known: {kind}: {error}."
                    )
                    continue
                for suffix, child in children:
                    self._add(path + suffix, child)
                yield Found(path, part, state)

    @property
    def functions(self) -> list[types.FunctionType]:
        """The functions met until now."""
        return [thing for thing in self._alive if isinstance(thing, types.FunctionType)]

    def number(self, thing: object) -> int | None:
        """Which thing it is, in the order of this walk; None for one that is not followed."""
        return self._numbers.get(id(thing))

    def _add(self, path: str, thing: object) -> None:
        if isinstance(thing, _ATOMS) or id(thing) in self._numbers:
            return
        self._numbers[id(thing)] = len(self._numbers)
        self._alive.append(thing)
        self._waiting.append((path, thing))


def _path(way: str) -> str:
    return _MODULE_DICTS.sub(r".\1", way)


def _root(number: int, thing: object) -> str:
    if isinstance(thing, torch.nn.Module):
        return type(thing).__name__
    return getattr(thing, "__qualname__", f"objects[{number}]")


def _parts(thing: Any) -> list[Part]:
    """The parts of `thing`; none if it is not to be followed."""
    if isinstance(thing, torch.Tensor):
        return [parts.Place(thing), *_attributes(thing), _Class(thing)]
    if isinstance(thing, torch.UntypedStorage):
        return [parts.Memory(thing)]
    if isinstance(thing, list | deque | set):
        return [parts.Items(thing), *_attributes(thing)]
    if isinstance(thing, tuple | frozenset):
        return [_Fixed(thing), *_attributes(thing)]
    if isinstance(thing, dict):
        return [parts.Entries(thing), *_attributes(thing)]
    if isinstance(thing, type):
        return [parts.ClassAttributes(thing)] if _is_users_class(thing) else []
    if isinstance(thing, types.FunctionType):
        return _function(thing)
    if isinstance(thing, types.CellType):
        return [parts.Cell(thing)]
    wrapped = _wrapped(thing)
    if wrapped:
        return [parts.Names(thing, wrapped), *_attributes(thing)]
    state = _state(thing)
    if state is not None:
        return [state, *_attributes(thing)]
    if _opaque(type(thing)) and not isinstance(thing, torch.nn.Module):
        return []
    return [*_attributes(thing), _Class(thing)]


class _Fixed(parts.Items):
    """The items of what cannot change."""

    def same(self, one: Any, other: Any) -> bool:
        return True


class _Class(Part):
    """An object's class."""

    def read(self) -> parts.Named:
        return (("'s class", type(self.target)),)

    def write(self, state: parts.Named) -> None:
        self.target.__class__ = state[0][1]


def _attributes(thing: Any) -> list[Part]:
    found: list[Part] = []
    if isinstance(getattr(thing, "__dict__", None), dict):
        found.append(parts.Attributes(thing))
    slots = _slots(type(thing))
    if slots:
        found.append(parts.Names(thing, slots))
    return found


def _slots(kind: type) -> tuple[str, ...]:
    """The names that classes written in Python keep in slots."""
    return tuple(
        name
        for one in kind.__mro__
        if "__slots__" in vars(one) and not _opaque(one)
        for name, slot in vars(one).items()
        if isinstance(slot, types.MemberDescriptorType)
    )


def _function(function: types.FunctionType) -> list[Part]:
    found: list[Part] = [
        parts.Names(function, ("__defaults__", "__kwdefaults__")),
        parts.Attributes(function),
        *(parts.Cell(cell) for cell in function.__closure__ or ()),
    ]
    if _is_users(function.__code__.co_filename):
        space = function.__globals__
        found.append(parts.Globals(space, _globals(function.__code__)))
        for name in _globals(function.__code__):
            module = space.get(name)
            if isinstance(module, types.ModuleType) and _is_users(_file(module)):
                used = _attribute_names(function.__code__) & vars(module).keys()
                found.append(parts.Globals(vars(module), used))
    return found


def _globals(code: types.CodeType) -> frozenset[str]:
    """The global names that `code` uses, inner functions' included."""
    own = (i.argval for i in dis.get_instructions(code) if i.opname.endswith("_GLOBAL"))
    return frozenset(own).union(*map(_globals, _inner(code)))


def _attribute_names(code: types.CodeType) -> frozenset[str]:
    return frozenset(code.co_names).union(*map(_attribute_names, _inner(code)))


def _inner(code: types.CodeType) -> list[types.CodeType]:
    return [const for const in code.co_consts if isinstance(const, types.CodeType)]


def _wrapped(thing: Any) -> tuple[str, ...]:
    """Where an object that stands for another keeps it."""
    if isinstance(thing, types.MethodType):
        return "__self__", "__func__"
    if isinstance(thing, functools.partial):
        return "func", "args", "keywords"
    if isinstance(thing, staticmethod | classmethod):
        return ("__func__",)
    if isinstance(thing, property):
        return "fget", "fset", "fdel"
    return ()


def _state(thing: Any) -> Part | None:
    """The part of an object that tells and takes its state through methods."""
    if isinstance(thing, torch.Generator):
        return parts.State(
            thing,
            lambda: (bytes(thing.get_state()), thing.initial_seed()),
            lambda state: thing.set_state(torch.tensor(list(state[0]), dtype=torch.uint8)),
        )
    if isinstance(thing, random.Random):
        return parts.State(thing, thing.getstate, thing.setstate)
    if isinstance(thing, bytearray):
        return parts.State(thing, lambda: bytes(thing), lambda s: thing.__setitem__(slice(None), s))
    if isinstance(thing, types.GeneratorType):
        return parts.State(thing, lambda: thing.gi_frame and thing.gi_frame.f_lasti)
    if isinstance(thing, _ITERATORS):
        return parts.State(thing, lambda: operator.length_hint(thing))
    if isinstance(thing, itertools.count):
        return parts.State(thing, lambda: repr(thing))
    if isinstance(thing, _LRU_CACHE):
        return parts.State(thing, lambda: thing.cache_info().currsize)
    return _numpy_state(thing)


def _numpy_state(thing: Any) -> Part | None:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(thing, numpy.ndarray):
        return parts.Array(thing)
    if isinstance(thing, numpy.random.RandomState):
        return parts.State(thing, thing.get_state, thing.set_state)
    if isinstance(thing, numpy.random.Generator):
        thing = thing.bit_generator
    if isinstance(thing, numpy.random.BitGenerator):
        bits = thing
        return parts.State(bits, lambda: bits.state, lambda state: setattr(bits, "state", state))
    return None


def _opaque(kind: type) -> bool:
    return str(kind.__module__).startswith(_OPAQUE)


def _is_users(file: str) -> bool:
    """Whether `file` is the user's; code from exec counts."""
    return owner(file) is Owner.USER or (file.startswith("<") and not file.startswith("<frozen"))


def _file(module: types.ModuleType | None) -> str:
    return getattr(module, "__file__", None) or "<frozen>"


def _is_users_class(kind: type) -> bool:
    if kind.__module__ == "__main__":
        return True
    return _is_users(_file(sys.modules.get(kind.__module__)))
