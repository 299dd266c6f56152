"""The registry of backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def registered(name: str) -> Callable[..., Any] | None:
    """The backend function registered under `name`, if it is loaded already; loads nothing."""
    from torch._dynamo.backends import registry

    return getattr(registry, "_COMPILER_FNS", {}).get(name)
