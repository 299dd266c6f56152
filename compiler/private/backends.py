"""The registry of backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def find_backend(name: str) -> Callable[..., Any] | None:
    """The backend function registered under `name`, if it is loaded already; loads nothing."""
    from torch._dynamo.backends import registry

    return getattr(registry, "_COMPILER_FNS", {}).get(name)


def is_local_backend(name: str) -> bool:
    """Whether only this process knows the backend `name`: it is neither torch's nor a package's."""
    from torch._dynamo.backends import registry

    function = find_backend(name)
    if function is None or getattr(registry, "_BACKENDS", {}).get(name) is not None:
        return False
    return not str(getattr(function, "__module__", "")).startswith("torch.")
