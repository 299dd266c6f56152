"""Running as eager does, whatever is compiled inside."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

_CONTROL = ("cond", "while_loop")


@contextlib.contextmanager
def force_eager() -> Iterator[None]:
    """What is compiled runs uncompiled; `torch.cond` and `torch.while_loop` do as in eager code.

    These compile themselves there. Under the stance "force_eager" they do not, miss the tensors
    that their functions close over, and their results ask for no gradient (torch 2.13).
    """
    known = {name: getattr(torch, name) for name in _CONTROL if hasattr(torch, name)}
    with torch.compiler.set_stance("force_eager"):
        for name, function in known.items():
            setattr(torch, name, _by_itself(function))
        try:
            yield
        finally:
            for name, function in known.items():
                setattr(torch, name, function)


def _by_itself(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with torch.compiler.set_stance("default"):
            return function(*args, **kwargs)

    return called
