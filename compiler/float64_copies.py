"""Copies of a program in float64, whose results tell rounding from an error."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

import torch

from fullgraph.compiler.private import tree_leaves, tree_map

T = TypeVar("T")


def to_float64(module: T, args: object, kwargs: object) -> tuple[T, Any, Any]:
    """Return copies of all three, with floating-point tensors in float64, complex in complex128.

    Arguments that share memory share it in the copies too.
    """
    if isinstance(module, torch.nn.Module):
        module = copy.deepcopy(module).double()
    tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
    by_memory: dict[object, dict[int, torch.Tensor]] = {}
    for one in tensors:
        real = one.layout is torch.strided and one.device.type != "meta"
        memory = one.untyped_storage().data_ptr() if real else id(one)
        by_memory.setdefault((memory, one.dtype), {})[id(one)] = one
    wide = {key: new for group in by_memory.values() for key, new in _widen_group(group).items()}

    def widen(leaf: object) -> object:
        """Return the copy of a tensor; other leaves unchanged."""
        return wide.get(id(leaf), leaf)

    return module, tree_map(widen, args), tree_map(widen, kwargs)


def _widen_group(tensors: Mapping[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    """Copy tensors that share memory and dtype to float64 or complex128; the copies share, too.

    Both dicts have the ids of the originals as keys. The copies have no autograd history.
    """
    whole = None
    if len(tensors) > 1:
        first = next(iter(tensors.values())).detach()
        length = first.untyped_storage().nbytes() // first.element_size()
        whole = _widen(first.as_strided((length,), (1,), 0))
    found = {}
    for key, one in tensors.items():
        layout = one.size(), one.stride(), one.storage_offset()
        new = _widen(one.detach()) if whole is None else whole.as_strided(*layout)
        found[key] = new.requires_grad_(one.requires_grad) if one.is_leaf else new
    return found


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy in float64 or complex128; integers and bools keep their dtype."""
    kinds = ((tensor.is_floating_point(), torch.float64), (tensor.is_complex(), torch.complex128))
    dtype = next((dtype for applies, dtype in kinds if applies), tensor.dtype)
    return tensor.to(dtype, copy=True)
