"""Parts of a program's state, each of which can be read, compared and written back.

A part is the smallest unit that is restored as a whole: the items of a list, the attributes of an
object, a closure cell. Those of tensors are in `tensor_parts`.
"""

from __future__ import annotations

import itertools
import operator
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

S = TypeVar("S")

ABSENT = "(absent)"
"""Value of an unbound name and of an empty cell."""

NamedObjects = tuple[tuple[str, object], ...]
"""(path suffix, object) pairs; a suffix is ".weight" or "[3]"."""


class StatePart(Generic[S]):
    """One part of an object that can be read, compared and restored, such as a list's items.

    `S` is the type of the part's state.
    """

    kind: ClassVar[str]
    """Name of the part in a digest."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def read(self) -> S:
        """Return the state."""
        raise NotImplementedError

    def write(self, state: S) -> None:
        """Restore `state`. Raises if that is impossible."""
        raise NotImplementedError

    def changed(self, state: S) -> bool:
        """Return whether the state now differs from `state`, an earlier one."""
        return not self.equal_states(state, self.read())

    def equal_states(self, one: S, other: S) -> bool:
        """Return whether two states are equal, with objects compared by identity."""
        return self.digest_content(one) == self.digest_content(other)

    def children(self, state: S) -> Iterable[tuple[str, object]]:
        """Return (path suffix, object) for each object in a state."""
        return ()

    def digest_content(self, state: S) -> bytes:
        """Return the content of a state, except its children, as bytes for a digest."""
        return b""


class NamedPart(StatePart[NamedObjects]):
    """A part whose state is a tuple of (path suffix, object) pairs: ((".weight", …), …)."""

    def equal_states(self, one: NamedObjects, other: NamedObjects) -> bool:
        """Return whether names are equal and objects identical."""
        return len(one) == len(other) and all(
            a[0] == b[0] and a[1] is b[1] for a, b in zip(one, other, strict=True)
        )

    def children(self, state: NamedObjects) -> NamedObjects:
        """Return the state: its pairs are the children."""
        return state


class ItemsPart(StatePart[tuple[object, ...]]):
    """Items of a list, tuple, deque, set or frozenset."""

    kind = "items"

    def read(self) -> tuple[object, ...]:
        """Return the items."""
        return tuple(self.target)

    def write(self, state: tuple[object, ...]) -> None:
        """Replace the items in place."""
        self.target.clear()
        add = self.target.update if isinstance(self.target, set) else self.target.extend
        add(state)

    def equal_states(self, one: tuple[object, ...], other: tuple[object, ...]) -> bool:
        """Return whether the items are identical, in order."""
        return len(one) == len(other) and all(map(operator.is_, one, other))

    def children(self, state: tuple[object, ...]) -> Iterable[tuple[str, object]]:
        """Return each item with its suffix: "[0]", "[1]", …"""
        return ((f"[{i}]", item) for i, item in enumerate(state))


class EntriesPart(StatePart[tuple[object, ...]]):
    """Keys and values of a dict, in order."""

    kind = "entries"

    def read(self) -> tuple[object, ...]:
        """Return keys and values in turn: k0, v0, k1, v1, …"""
        return tuple(itertools.chain.from_iterable(list(self.target.items())))

    def write(self, state: tuple[object, ...]) -> None:
        """Replace the entries in place, in the order of `state`."""
        # bypass a subclass's methods, but not OrderedDict's, which keep its order
        kind = OrderedDict if isinstance(self.target, OrderedDict) else dict
        kind.clear(self.target)
        for key, value in zip(state[::2], state[1::2], strict=True):
            kind.__setitem__(self.target, key, value)

    def equal_states(self, one: tuple[object, ...], other: tuple[object, ...]) -> bool:
        """Return whether keys and values are identical, in order."""
        return len(one) == len(other) and all(map(operator.is_, one, other))

    def children(self, state: tuple[object, ...]) -> Iterable[tuple[str, object]]:
        """Yield each key with the suffix "['name']'s key", each value with "['name']"."""
        for key, value in zip(state[::2], state[1::2], strict=True):
            name = f"[{key!r}]" if isinstance(key, str | int) else f"[{type(key).__name__}]"
            yield f"{name}'s key", key
            yield name, value


class AttributesPart(NamedPart):
    """The `__dict__` of an object."""

    kind = "attributes"

    def read(self) -> NamedObjects:
        """Return each attribute with the suffix ".name"."""
        return tuple((f".{name}", value) for name, value in list(vars(self.target).items()))

    def write(self, state: NamedObjects) -> None:
        """Replace the `__dict__` in place, without calling `__setattr__`."""
        attributes = vars(self.target)
        attributes.clear()
        attributes.update((name[1:], value) for name, value in state)


class NamedAttributesPart(NamedPart):
    """Attributes of an object that are given by name, such as slots or a function's defaults."""

    kind = "names"

    def __init__(self, target: object, names: Sequence[str]) -> None:
        super().__init__(target)
        self.names = names

    def read(self) -> NamedObjects:
        """Return each attribute with the suffix ".name"; ABSENT for one that is not set."""
        return tuple((f".{name}", getattr(self.target, name, ABSENT)) for name in self.names)

    def write(self, state: NamedObjects) -> None:
        """Set the attributes that differ and delete those that were absent."""
        for name, value in state:
            if getattr(self.target, name[1:], ABSENT) is value:
                continue
            if value is ABSENT:
                delattr(self.target, name[1:])
            else:
                setattr(self.target, name[1:], value)


class ClassAttributesPart(NamedPart):
    """Attributes that a class itself defines."""

    kind = "classattributes"

    _OF_PYTHON = ("__dict__", "__weakref__", "__doc__", "__annotations__", "__abstractmethods__")

    def read(self) -> NamedObjects:
        """Return the class's own attributes without those that Python manages."""
        own = list(vars(self.target).items())
        return tuple((f".{name}", value) for name, value in own if name not in self._OF_PYTHON)

    def children(self, state: NamedObjects) -> NamedObjects:
        """Return the attributes and the base classes."""
        return (*state, (".__bases__", self.target.__bases__))

    def write(self, state: NamedObjects) -> None:
        """Delete attributes that were added and set those that differ."""
        before = {name[1:]: value for name, value in state}
        for name in [n for n in vars(self.target) if n not in before and n not in self._OF_PYTHON]:
            delattr(self.target, name)
        for name, value in before.items():
            if vars(self.target).get(name, ABSENT) is not value:
                setattr(self.target, name, value)


class GlobalsPart(NamedPart):
    """Global variables that the code of a function names."""

    kind = "globals"

    def __init__(self, target: dict[str, object], names: Iterable[str]) -> None:
        super().__init__(target)
        self.names = sorted(names)

    def read(self) -> NamedObjects:
        """Return each global with the suffix " → name"; ABSENT for one that is not bound."""
        return tuple((f" → {name}", self.target.get(name, ABSENT)) for name in self.names)

    def write(self, state: NamedObjects) -> None:
        """Bind the globals again and remove those that were absent."""
        for name, (_, value) in zip(self.names, state, strict=True):
            if value is ABSENT:
                self.target.pop(name, None)
            else:
                self.target[name] = value


class CellPart(NamedPart):
    """Content of a closure cell."""

    kind = "cell"

    def read(self) -> NamedObjects:
        """Return the content, or ABSENT for an empty cell, with the suffix ""."""
        try:
            return (("", self.target.cell_contents),)
        except ValueError:
            return (("", ABSENT),)

    def write(self, state: NamedObjects) -> None:
        """Fill the cell, or empty it."""
        if state[0][1] is ABSENT:
            del self.target.cell_contents
        else:
            self.target.cell_contents = state[0][1]


class GetterPart(StatePart[S]):
    """State that a call of a getter returns as data, such as that of a random generator.

    Without a setter, it can be compared but not restored.
    """

    kind = "state"

    def __init__(
        self, target: object, get: Callable[[], S], put: Callable[[S], object] | None = None
    ) -> None:
        """Make a part read by `get` and written by `put`; without `put` it cannot be restored."""
        super().__init__(target)
        self._get, self._put = get, put

    def read(self) -> S:
        """Call the getter."""
        return self._get()

    def write(self, state: S) -> None:
        """Call the setter; raise TypeError if there is none."""
        if self._put is None:
            raise TypeError(f"a {type(self.target).__name__} goes one way only")
        self._put(state)

    def digest_content(self, state: S) -> bytes:
        """Pickle the state."""
        return pickle.dumps(state)


class ArrayPart(StatePart[object]):
    """Elements of a NumPy array."""

    kind = "array"

    def read(self) -> object:
        """Return a copy of the array."""
        return self.target.copy()

    def write(self, state: Any) -> None:
        """Copy the elements back; raise ValueError if the array was resized."""
        if self.target.shape != state.shape:
            raise ValueError("the array was resized")
        self.target[...] = state

    def equal_states(self, one: Any, other: Any) -> bool:
        """Return whether shapes and bytes are equal, and object elements identical."""
        return one.shape == other.shape and self.digest_content(one) == self.digest_content(other)

    def children(self, state: Any) -> NamedObjects:
        """Return the elements of an object array."""
        if state.dtype.hasobject:
            return tuple((f".flat[{i}]", item) for i, item in enumerate(state.flat))
        return ()

    def digest_content(self, state: Any) -> bytes:
        """Return dtype, shape and bytes; for an object array, the ids of the elements."""
        if state.dtype.hasobject:
            return repr([id(item) for item in state.flat]).encode()
        return repr((state.dtype, state.shape)).encode() + state.tobytes()
