"""Decompositions of the backwards of operators that resize or pad each dim on its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

aten = torch.ops.aten


def resizing_decompositions() -> Mapping[str, Callable[..., object]]:
    """Return the decompositions of adaptive pooling, and of backwards of interpolation and pads."""
    table: dict[str, Callable[..., object]] = {
        "_adaptive_avg_pool3d.default": _adaptive_avg_pool3d,
        "_adaptive_avg_pool2d_backward.default": _adaptive_avg_pool_backward,
        "_adaptive_avg_pool3d_backward.default": _adaptive_avg_pool_backward,
    }
    for name in ("bilinear2d", "bicubic2d", "linear1d", "trilinear3d"):
        table[f"upsample_{name}_backward.default"] = functools.partial(_aligned_backward, name)
    for name in ("nearest", "_nearest_exact"):
        for dims in (1, 2, 3):
            key = f"upsample_{name}{dims}d_backward.default".replace("upsample__", "_upsample_")
            table[key] = functools.partial(_nearest_backward, f"{key.split('_backward')[0]}")
    for dims in (1, 2, 3):
        table[f"reflection_pad{dims}d_backward.default"] = functools.partial(_pad_backward, True)
        table[f"replication_pad{dims}d_backward.default"] = functools.partial(_pad_backward, False)
    return table


def _resize_backward(
    gradient: Tensor, sizes: Sequence[int], resize: Callable[[Tensor, int, int], Tensor]
) -> Tensor:
    """Return the gradient of an operator that resizes or pads each of the last dims on its own.

    Such an operator multiplies by one matrix for each dim. `resize(identity, dim, size)` returns
    the matrix of a dim, as one row for each element of the input, which has that size.
    """
    count, dtype = len(sizes), gradient.dtype
    gradient = _widened(gradient)
    for number, size in enumerate(sizes):
        identity = torch.eye(size, dtype=gradient.dtype, device=gradient.device)
        matrix = resize(identity, number, size)  # size of the input × size of the output
        dim = gradient.ndim - count + number
        moved = torch.movedim(gradient, dim, -1) @ matrix.t()
        gradient = torch.movedim(moved, -1, dim)
    return gradient.to(dtype)


def _widened(x: Tensor) -> Tensor:
    """Return a tensor in a dtype whose rounding after each dim does not count."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _aligned_backward(
    name: str,
    gradient: Tensor,
    output_size: Sequence[int],
    input_size: Sequence[int],
    align_corners: bool,
    *scales: float | None,
) -> Tensor:
    forward = getattr(aten, f"upsample_{'bicubic2d' if 'cubic' in name else 'linear1d'}").default

    def resize(identity: Tensor, number: int, size: int) -> Tensor:
        """Interpolate the rows of the identity in one dim."""
        scale = scales[number] if number < len(scales) else None
        length = output_size[number]
        if "cubic" in name:
            rows = torch.unsqueeze(torch.unsqueeze(identity, 0), -1)
            grown = forward(rows, [length, 1], align_corners, scale, None)
            return torch.squeeze(torch.squeeze(grown, -1), 0)
        rows = torch.unsqueeze(identity, 0)
        return torch.squeeze(forward(rows, [length], align_corners, scale), 0)

    return _resize_backward(gradient, input_size[2:], resize)


def _nearest_backward(
    name: str,
    gradient: Tensor,
    output_size: Sequence[int],
    input_size: Sequence[int],
    *scales: float | None,
) -> Tensor:
    forward = getattr(aten, f"{name[:-2]}1d").default

    def resize(identity: Tensor, number: int, size: int) -> Tensor:
        """Repeat elements of the identity's rows."""
        scale = scales[number] if number < len(scales) else None
        rows = forward(torch.unsqueeze(identity, 0), [output_size[number]], scale)
        return torch.squeeze(rows, 0)

    return _resize_backward(gradient, input_size[2:], resize)


def _pad_backward(reflects: bool, gradient: Tensor, x: Tensor, padding: Sequence[int]) -> Tensor:
    count = len(padding) // 2
    forward = aten.reflection_pad1d if reflects else aten.replication_pad1d

    def resize(identity: Tensor, number: int, size: int) -> Tensor:
        """Pad the rows of the identity."""
        place = 2 * (count - 1 - number)
        return torch.squeeze(
            forward.default(torch.unsqueeze(identity, 0), padding[place : place + 2]), 0
        )

    return _resize_backward(gradient, x.shape[-count:], resize)


def _adaptive_avg_pool3d(x: Tensor, sizes: Sequence[int]) -> Tensor:
    dtype, x = x.dtype, _widened(x)
    for number, size in enumerate(sizes):
        dim = x.ndim - len(sizes) + number
        identity = torch.eye(x.shape[dim], dtype=x.dtype, device=x.device)
        moved = torch.movedim(x, dim, -1) @ _pool_rows(identity, size)
        x = torch.movedim(moved, -1, dim)
    return x.to(dtype)


def _adaptive_avg_pool_backward(gradient: Tensor, x: Tensor) -> Tensor:
    dims = 2 if x.ndim < 5 else 3
    sizes = gradient.shape[-dims:]
    return _resize_backward(
        gradient,
        x.shape[-dims:],
        lambda identity, number, size: _pool_rows(identity, sizes[number]),
    )


def _pool_rows(identity: Tensor, size: int) -> Tensor:
    """Average the elements of each row in windows, of which there are `size`."""
    rows = torch.unsqueeze(torch.unsqueeze(identity, 0), -1)
    pooled = aten._adaptive_avg_pool2d.default(rows, [size, 1])
    return torch.squeeze(torch.squeeze(pooled, -1), 0)
