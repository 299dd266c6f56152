"""Eager execution of code that contains compiled functions."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

import torch

_CONTROL = ("cond", "while_loop")


@contextlib.contextmanager
def force_eager() -> Iterator[None]:
    """Run compiled functions uncompiled, except inside `torch.cond` and `torch.while_loop`.

    Even in eager code, these two compile the functions passed to them, and here they still do. The
    stance "force_eager" alone would prevent that: in torch 2.13 they then fail to see tensors that
    the functions close over, and drop gradients.
    """
    known = {name: getattr(torch, name) for name in _CONTROL if hasattr(torch, name)}
    with torch.compiler.set_stance("force_eager"):
        for name, function in known.items():
            setattr(torch, name, _with_default_stance(function))
        try:
            yield
        finally:
            for name, function in known.items():
                setattr(torch, name, function)


def _with_default_stance(function: Callable[..., object]) -> Callable[..., object]:
    """Return `function`, wrapped so that it runs under the stance "default"."""

    @functools.wraps(function)
    def call_with_default_stance(*args: object, **kwargs: object) -> object:
        with torch.compiler.set_stance("default"):
            return function(*args, **kwargs)

    return call_with_default_stance
