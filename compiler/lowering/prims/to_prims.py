"""Decompositions of canonical ATen operators into prims where torch has none that ends."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

aten = torch.ops.aten
prims = torch.ops.prims


def decompositions_to_prims() -> Mapping[str, Callable[..., object]]:
    """Return our decompositions into prims by operator: "select.int" → a function."""
    return {
        "full.default": _full,
        "empty.memory_format": lambda sizes, **options: _empty_permuted(
            sizes, range(len(sizes)), **options
        ),
        "empty_permuted.default": _empty_permuted,
        "select.int": _select,
        "view.dtype": lambda x, dtype: prims.view_of_dtype(x, dtype),
        "squeeze.dims": _squeeze,
        "cumsum.default": functools.partial(_scan, aten.cumsum.default),
        "cumprod.default": functools.partial(_scan, aten.cumprod.default),
        "_conj.default": lambda x: prims.conj(x),
    }


def _full(sizes: Sequence[int], value: complex, **options: object) -> Tensor:
    dtype = options.get("dtype") or torch.tensor(value).dtype
    device = options.get("device") or "cpu"
    return prims.full(sizes, value, dtype=dtype, device=device, requires_grad=False)


def _empty_permuted(sizes: Sequence[int], order: Sequence[int], **options: object) -> Tensor:
    dtype = options.get("dtype") or torch.get_default_dtype()
    device = options.get("device") or "cpu"
    return prims.empty_permuted(sizes, list(order), dtype=dtype, device=device, requires_grad=False)


def _select(x: Tensor, dim: int, index: int) -> Tensor:
    begin = index + x.shape[dim] if index < 0 else index
    return prims.squeeze(aten.slice.Tensor(x, dim, begin, begin + 1), [dim % x.ndim])


def _squeeze(x: Tensor, dims: Sequence[int]) -> Tensor:
    found = [dim % x.ndim for dim in dims] if x.ndim else []
    return prims.squeeze(x, [dim for dim in found if x.shape[dim] == 1])


def _scan(
    scan: Callable[..., Tensor], x: Tensor, dim: int, *, dtype: torch.dtype | None = None
) -> Tensor:
    """Convert the operand of a scan, which sums bools and small integers as int64."""
    is_integer = not (x.is_floating_point() or x.is_complex())
    wanted = dtype or (torch.int64 if is_integer else x.dtype)
    if x.dtype == wanted:
        return NotImplemented
    return scan(prims.convert_element_type(x, wanted), dim)
