"""Copies of values that later code cannot change, and a key that is equal for similar values."""

from __future__ import annotations

from typing import Any

import torch

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))
"""Types whose values can be written as literals."""


def is_plain(value: object) -> bool:
    """Return whether a value can be written as a literal; False for an enum or a NumPy float."""
    return type(value) in PLAIN


def is_numpy(value: object) -> bool:
    """Return whether a value is a NumPy array or scalar; NumPy need not be installed."""
    return type(value).__module__ == "numpy" and hasattr(value, "dtype")


def signature(value: Any) -> object:
    """Return a hashable key that is equal for values that a compiler cannot tell apart.

    Tensors and arrays are equal if their metadata are, literals by value, containers by their
    items' keys, and any other object only to itself.
    """
    kind = type(value)
    if is_plain(value):
        return kind, repr(value)
    if isinstance(value, torch.Tensor):
        layout = value.layout, value.device, value.requires_grad
        return kind, value.dtype, tuple(value.shape), layout
    if is_numpy(value):
        return kind, value.dtype, value.shape
    if kind is list or isinstance(value, tuple):
        return kind, tuple(signature(item) for item in value)
    if kind is dict:
        return kind, tuple((signature(k), signature(v)) for k, v in value.items())
    return kind, id(value)


def snapshot(value: Any) -> Any:
    """Return a copy of a value that later in-place changes do not affect.

    Tensors are copied without autograd history, arrays and containers with their items. Parameters
    and objects of other types are returned as they are.
    """
    kind = type(value)
    if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        try:
            with torch.inference_mode(False), torch.no_grad():
                return value.detach().clone().requires_grad_(value.requires_grad)
        except Exception:  # a tensor of a running transform or of a fake mode cannot be copied
            return value
    if is_numpy(value):
        return value.copy()
    if kind in (list, tuple):
        return kind(snapshot(item) for item in value)
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return kind(*(snapshot(item) for item in value))
    if kind is dict:
        return {key: snapshot(item) for key, item in value.items()}
    return value
