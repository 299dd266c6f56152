"""Decompositions of the backwards of operators that resize or pad each dim on its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

aten = torch.ops.aten
Operator = torch._ops.OpOverload


def resizing_decompositions() -> Mapping[str, Callable[..., object]]:
    """Return the decompositions of adaptive pooling, and of backwards of interpolation and pads."""
    table: dict[str, Callable[..., object]] = {
        "_adaptive_avg_pool3d.default": _adaptive_avg_pool3d,
        "_adaptive_avg_pool2d_backward.default": _adaptive_avg_pool_backward,
        "_adaptive_avg_pool3d_backward.default": _adaptive_avg_pool_backward,
    }
    forwards = {
        "upsample_bicubic2d": aten.upsample_bicubic2d,
        **dict.fromkeys(("upsample_linear1d", "upsample_bilinear2d"), aten.upsample_linear1d),
        "upsample_trilinear3d": aten.upsample_linear1d,
    }
    for dims in (1, 2, 3):
        forwards[f"upsample_nearest{dims}d"] = aten.upsample_nearest1d
        forwards[f"_upsample_nearest_exact{dims}d"] = aten._upsample_nearest_exact1d
        for name in ("reflection_pad", "replication_pad"):
            forward = getattr(aten, f"{name}1d").default
            table[f"{name}{dims}d_backward.default"] = functools.partial(_pad_backward, forward)
    for name, packet in forwards.items():
        function = functools.partial(_interpolation_backward, packet.default)
        table[f"{name}_backward.default"] = function
    return table


def _multiply_dims(
    x: Tensor, sizes: Sequence[int], matrix_of: Callable[[Tensor, int], Tensor]
) -> Tensor:
    """Multiply each of the last dims of a tensor by a matrix.

    `matrix_of(identity, number)` returns that of a dim; the identity has its size in `sizes`. What
    is rounded after each dim is float32 at least.
    """
    dtype = x.dtype
    x = x.float() if dtype in (torch.bfloat16, torch.float16) else x
    for number, size in enumerate(sizes):
        matrix = matrix_of(torch.eye(size, dtype=x.dtype, device=x.device), number)
        dim = number - len(sizes)
        x = torch.movedim(torch.movedim(x, dim, -1) @ matrix, -1, dim)
    return x.to(dtype)


def _resize_rows(forward: Operator, rows: Tensor, *args: object) -> Tensor:
    """Apply an operator that resizes or pads the last dims, of which it has one or two, to rows."""
    is_of_two_dims = "2d" in str(forward)
    rows = torch.unsqueeze(rows, 0)
    result = forward(torch.unsqueeze(rows, -1) if is_of_two_dims else rows, *args)
    return torch.squeeze(torch.squeeze(result, -1) if is_of_two_dims else result, 0)


def _interpolation_backward(
    forward: Operator,
    gradient: Tensor,
    output_size: Sequence[int],
    input_size: Sequence[int],
    *options: bool | float | None,
) -> Tensor:
    """Decompose a backward; the options are `align_corners`, if it has that, and scales."""
    corners = [one for one in options[:1] if isinstance(one, bool)]
    scales = options[len(corners) :]

    def matrix_of(identity: Tensor, number: int) -> Tensor:
        """Interpolate the rows of the identity in one dim."""
        scale = scales[number] if number < len(scales) else None
        sizes, rest = [output_size[number]], [scale]
        if "2d" in str(forward):
            sizes, rest = [*sizes, 1], [scale, None]
        return _resize_rows(forward, identity, sizes, *corners, *rest).t()

    return _multiply_dims(gradient, input_size[2:], matrix_of)


def _pad_backward(forward: Operator, gradient: Tensor, x: Tensor, padding: Sequence[int]) -> Tensor:
    count = len(padding) // 2

    def matrix_of(identity: Tensor, number: int) -> Tensor:
        """Pad the rows of the identity."""
        place = 2 * (count - 1 - number)
        return _resize_rows(forward, identity, padding[place : place + 2]).t()

    return _multiply_dims(gradient, x.shape[-count:], matrix_of)


def _adaptive_avg_pool3d(x: Tensor, sizes: Sequence[int]) -> Tensor:
    return _multiply_dims(
        x, x.shape[-3:], lambda identity, number: _average_rows(identity, sizes[number])
    )


def _adaptive_avg_pool_backward(gradient: Tensor, x: Tensor) -> Tensor:
    dims = 2 if x.ndim < 5 else 3
    sizes = gradient.shape[-dims:]
    return _multiply_dims(
        gradient,
        x.shape[-dims:],
        lambda identity, number: _average_rows(identity, sizes[number]).t(),
    )


def _average_rows(rows: Tensor, size: int) -> Tensor:
    """Average the elements of each row in windows, of which there are `size`."""
    return _resize_rows(aten._adaptive_avg_pool2d.default, rows, [size, 1])
