"""The parts that a program's state is made of: each can be read, compared and written back.

A part is the smallest thing that is put back as a whole: a list's items, an object's attributes,
a tensor's place, its memory, a cell of a closure.
"""

from __future__ import annotations

import itertools
import operator
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fullgraph.compiler.private import torch_state as settings

ABSENT = "(absent)"
"""Stands for a name that is not bound and a cell that is empty."""

Named = tuple[tuple[str, Any], ...]
"""Objects, each with what it adds to the path: ".weight", "[3]"."""


class Part:
    """One part of an object. By default its state is the objects in it."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def read(self) -> Any:
        raise NotImplementedError

    def write(self, state: Any) -> None:
        """Make the part have `state` again. Raises whatever stands against it."""
        raise NotImplementedError

    def changed(self, state: Any) -> bool:
        """Whether the part is no longer as it was in `state`."""
        return not self.same(state, self.read())

    def same(self, one: Any, other: Any) -> bool:
        """Whether two states are the same; objects in it by identity."""
        return len(one) == len(other) and all(
            a[0] == b[0] and a[1] is b[1] for a, b in zip(one, other, strict=True)
        )

    def children(self, state: Any) -> Iterable[tuple[str, Any]]:
        return state

    def content(self, state: Any) -> bytes:
        """What of the state is not in its children, for a digest."""
        return b""


class Items(Part):
    """Of a list, tuple, deque, set or frozenset."""

    def read(self) -> tuple[Any, ...]:
        return tuple(self.target)

    def write(self, state: tuple[Any, ...]) -> None:
        self.target.clear()
        add = self.target.update if isinstance(self.target, set) else self.target.extend
        add(state)

    def same(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        return len(one) == len(other) and all(map(operator.is_, one, other))

    def children(self, state: tuple[Any, ...]) -> Iterable[tuple[str, Any]]:
        return ((f"[{i}]", item) for i, item in enumerate(state))


class Entries(Part):
    """Keys and values of a dict, in order."""

    def read(self) -> tuple[Any, ...]:
        return tuple(itertools.chain.from_iterable(list(self.target.items())))

    def write(self, state: tuple[Any, ...]) -> None:
        # past a subclass's own methods, but not past OrderedDict's, which keep its order
        kind = OrderedDict if isinstance(self.target, OrderedDict) else dict
        kind.clear(self.target)
        for key, value in zip(state[::2], state[1::2], strict=True):
            kind.__setitem__(self.target, key, value)

    def same(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        return len(one) == len(other) and all(map(operator.is_, one, other))

    def children(self, state: tuple[Any, ...]) -> Iterable[tuple[str, Any]]:
        for key, value in zip(state[::2], state[1::2], strict=True):
            name = f"[{key!r}]" if isinstance(key, str | int) else f"[{type(key).__name__}]"
            yield f"{name}'s key", key
            yield name, value


class Attributes(Part):
    """Of an object, out of its `__dict__`."""

    def read(self) -> Named:
        return tuple((f".{name}", value) for name, value in list(vars(self.target).items()))

    def write(self, state: Named) -> None:
        attributes = vars(self.target)
        attributes.clear()
        attributes.update((name[1:], value) for name, value in state)


class Names(Part):
    """Some attributes of an object, one by one: slots, a function's defaults, a class's own."""

    def __init__(self, target: Any, names: Sequence[str]) -> None:
        super().__init__(target)
        self.names = names

    def read(self) -> Named:
        return tuple((f".{name}", getattr(self.target, name, ABSENT)) for name in self.names)

    def write(self, state: Named) -> None:
        for name, value in state:
            if getattr(self.target, name[1:], ABSENT) is value:
                continue
            if value is ABSENT:
                delattr(self.target, name[1:])
            else:
                setattr(self.target, name[1:], value)


class ClassAttributes(Part):
    """What a class itself defines."""

    _OF_PYTHON = ("__dict__", "__weakref__", "__doc__", "__annotations__", "__abstractmethods__")

    def read(self) -> Named:
        own = list(vars(self.target).items())
        return tuple((f".{name}", value) for name, value in own if name not in self._OF_PYTHON)

    def children(self, state: Named) -> Named:
        return (*state, (".__bases__", self.target.__bases__))

    def write(self, state: Named) -> None:
        before = {name[1:]: value for name, value in state}
        for name in [n for n in vars(self.target) if n not in before and n not in self._OF_PYTHON]:
            delattr(self.target, name)
        for name, value in before.items():
            if vars(self.target).get(name, ABSENT) is not value:
                setattr(self.target, name, value)


class Globals(Part):
    """Those names of a module's namespace that a function's code uses."""

    def __init__(self, target: dict[str, Any], names: Iterable[str]) -> None:
        super().__init__(target)
        self.names = sorted(names)

    def read(self) -> Named:
        return tuple((f" → {name}", self.target.get(name, ABSENT)) for name in self.names)

    def write(self, state: Named) -> None:
        for name, (_, value) in zip(self.names, state, strict=True):
            if value is ABSENT:
                self.target.pop(name, None)
            else:
                self.target[name] = value


class Cell(Part):
    """The content of a variable that a closure shares."""

    def read(self) -> Named:
        try:
            return (("", self.target.cell_contents),)
        except ValueError:
            return (("", ABSENT),)

    def write(self, state: Named) -> None:
        if state[0][1] is ABSENT:
            del self.target.cell_contents
        else:
            self.target.cell_contents = state[0][1]


class State(Part):
    """What an object tells of itself through a getter, as plain data: a generator of random
    numbers, an iterator. Without `put` it cannot be written."""

    def __init__(
        self, target: Any, get: Callable[[], Any], put: Callable[[Any], object] | None = None
    ) -> None:
        super().__init__(target)
        self._get, self._put = get, put

    def read(self) -> Any:
        return self._get()

    def write(self, state: Any) -> None:
        if self._put is None:
            raise TypeError(f"a {type(self.target).__name__} goes one way only")
        self._put(state)

    def same(self, one: Any, other: Any) -> bool:
        return self.content(one) == self.content(other)

    def children(self, state: Any) -> Named:
        return ()

    def content(self, state: Any) -> bytes:
        return pickle.dumps(state)


class Array(Part):
    """The elements of a numpy array."""

    def read(self) -> Any:
        return self.target.copy()

    def write(self, state: Any) -> None:
        if self.target.shape != state.shape:
            raise ValueError("the array was resized")
        self.target[...] = state

    def same(self, one: Any, other: Any) -> bool:
        return one.shape == other.shape and self.content(one) == self.content(other)

    def children(self, state: Any) -> Named:
        if state.dtype.hasobject:
            return tuple((f".flat[{i}]", item) for i, item in enumerate(state.flat))
        return ()

    def content(self, state: Any) -> bytes:
        if state.dtype.hasobject:
            return repr([id(item) for item in state.flat]).encode()
        return repr((state.dtype, state.shape)).encode() + state.tobytes()


class Memory(Part):
    """The bytes of a tensor's storage."""

    def read(self) -> torch.Tensor:
        view = self._view()
        try:
            return view.clone()
        except torch.OutOfMemoryError:
            return view.cpu()

    def write(self, state: torch.Tensor) -> None:
        if self.target.nbytes() != state.numel():
            self.target.resize_(state.numel())
        self._view().copy_(state)

    def _view(self) -> torch.Tensor:
        # a tensor of its own, so that writing does not count as a change of the user's tensors
        with torch.inference_mode(False):
            bytes_ = torch.empty(0, dtype=torch.uint8, device=self.target.device)
            return bytes_.set_(self.target)

    def changed(self, state: torch.Tensor) -> bool:
        return not torch.equal(state, self._view().to(state.device))

    def children(self, state: torch.Tensor) -> Named:
        return ()

    def content(self, state: torch.Tensor) -> bytes:
        return state.cpu().numpy().tobytes()


@dataclass(frozen=True)
class _Place:
    """All of a tensor but its values."""

    alias: torch.Tensor | None
    """A detached tensor in the same place: storage, offset, sizes, strides, dtype and device.
    None for a tensor that is made of others."""
    version: int | None
    requires_grad: bool
    history: Any
    """`grad_fn`."""
    grad: torch.Tensor | None
    hooks: Any


class Place(Part):
    """Where a tensor's values lie, and what autograd knows about it."""

    def read(self) -> _Place:
        tensor = self.target
        with settings.no_overrides():
            has_grad = tensor.is_leaf or tensor.retains_grad  # else asking for it warns
            return _Place(
                alias=tensor.detach() if _has_memory(tensor) else None,
                version=None if tensor.is_inference() else tensor._version,
                requires_grad=tensor.requires_grad,
                history=tensor.grad_fn,
                grad=tensor.grad if has_grad else None,
                hooks=tensor._backward_hooks,
            )

    def write(self, state: _Place) -> None:
        with settings.no_overrides(), torch.no_grad():
            self._write(self.target, state)

    def _write(self, tensor: torch.Tensor, state: _Place) -> None:
        if state.alias is not None and not _same_place(tensor, state.alias):
            tensor.data = state.alias
        if tensor.grad_fn is not state.history:
            if state.history is not None:
                raise RuntimeError("its autograd history was rewritten by an in-place change")
            if tensor._is_view():
                raise RuntimeError("a view cannot lose the autograd history of its base")
            tensor.detach_()
        if tensor.is_leaf and tensor.requires_grad != state.requires_grad:
            tensor.requires_grad_(state.requires_grad)
        if (tensor.is_leaf or tensor.retains_grad) and tensor.grad is not state.grad:
            tensor.grad = state.grad
        if tensor._backward_hooks is not state.hooks:
            tensor._backward_hooks = state.hooks
        if state.version is not None and tensor._version != state.version:
            settings.set_version(tensor, state.version)

    def same(self, one: _Place, other: _Place) -> bool:
        aliases = one.alias is None or (
            other.alias is not None and _same_place(one.alias, other.alias)
        )
        return (
            aliases
            and (one.version, one.requires_grad) == (other.version, other.requires_grad)
            and one.history is other.history
            and one.grad is other.grad
            and one.hooks is other.hooks
        )

    def children(self, state: _Place) -> Iterable[tuple[str, Any]]:
        inner = settings.inner_tensors(self.target)
        yield from ((f".{name}", tensor) for name, tensor in inner)
        alias = state.alias
        if alias is not None and _has_storage(alias):
            yield "", alias.untyped_storage()
        yield ".grad", state.grad
        yield "'s hooks", state.hooks

    def content(self, state: _Place) -> bytes:
        told: list[object] = [type(self.target), state.version, state.requires_grad]
        told += [type(state.history), id(state.history) if state.history else None]
        if state.alias is not None:
            told += _place(state.alias)
        return repr(told).encode()


def _has_memory(tensor: torch.Tensor) -> bool:
    """Whether the values of `tensor` are its own, not those of tensors inside it."""
    return type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__


def _has_storage(tensor: torch.Tensor) -> bool:
    """Whether the elements are bytes somewhere: not on the meta device, not a ZeroTensor's."""
    strided = tensor.layout is torch.strided and tensor.device.type != "meta"
    return strided and not tensor._is_zerotensor()


def _same_place(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.layout is torch.strided and one.untyped_storage() is not other.untyped_storage():
        return False
    return _place(one) == _place(other)


def _place(tensor: torch.Tensor) -> list[object]:
    place: list[object] = [tensor.dtype, tensor.device, tuple(tensor.shape), tensor.layout]
    if tensor.layout is torch.strided:
        place += [tensor.stride(), tensor.storage_offset()]
    return place
