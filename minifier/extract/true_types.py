"""Types of objects that may lie about their class, such as proxies."""

from __future__ import annotations

from typing import TypeGuard, TypeVar

from torch import nn

T = TypeVar("T")


def has_type(value: object, *kinds: type[T]) -> TypeGuard[T]:
    """Return whether the type of an object derives from one of `kinds`.

    `isinstance` also believes `value.__class__`, which a proxy fakes.
    """
    return issubclass(type(value), kinds)


def is_module(value: object) -> TypeGuard[nn.Module]:
    """Return whether the type of an object derives from nn.Module."""
    return issubclass(type(value), nn.Module)


def attributes_of(value: object) -> dict[str, object]:
    """Return an object's attributes by name, from its `__dict__` and its slots.

    Unlike `getattr`, runs no code of the object's class.
    """
    found: dict[str, object] = {}
    for kind in reversed(type(value).__mro__):
        for name in _slots_of(kind):
            try:
                found[name] = object.__getattribute__(value, name)
            except AttributeError:
                continue
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        held = {}
    return found | (held if type(held) is dict else {})


def _slots_of(kind: type) -> list[str]:
    """Return the names of a class's own slots, with private names mangled."""
    slots = kind.__dict__.get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    private = f"_{kind.__name__.lstrip('_')}"
    return [
        f"{private}{name}" if name.startswith("__") and not name.endswith("__") else name
        for name in names
        if name not in ("__dict__", "__weakref__")
    ]
