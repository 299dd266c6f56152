"""Decompositions of pooling, and of the backwards of operators that resize or pad each dim."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
Operator = torch._ops.OpOverload


def resizing_decompositions() -> Mapping[str, Callable[..., object]]:
    """Return the decompositions of average pooling, and of backwards of interpolation and pads."""
    table: dict[str, Callable[..., object]] = {
        **{f"avg_pool{dims}d.default": _avg_pool for dims in (2, 3)},
        **{f"avg_pool{dims}d_backward.default": _avg_pool_backward for dims in (2, 3)},
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
    return _multiply_dims(x, x.shape[-3:], lambda rows, number: _average(rows, sizes[number]))


def _adaptive_avg_pool_backward(gradient: Tensor, x: Tensor) -> Tensor:
    dims = 2 if x.ndim < 5 else 3
    sizes = gradient.shape[-dims:]
    return _multiply_dims(
        gradient, x.shape[-dims:], lambda rows, number: _average(rows, sizes[number]).t()
    )


def _average(rows: Tensor, size: int) -> Tensor:
    """Average the elements of each row in windows, of which there are `size`."""
    return _resize_rows(aten._adaptive_avg_pool2d.default, rows, [size, 1])


def _avg_pool(x: Tensor, *options: Any, **named: Any) -> Tensor:
    """Decompose average pooling into sums over the windows that `unfold` shows."""
    pool = _Pool(x, *options, **named)
    rounding = None if x.is_floating_point() else "trunc"
    return torch.div(pool.sum_windows(x), pool.divisors, rounding_mode=rounding)


def _avg_pool_backward(gradient: Tensor, x: Tensor, *options: Any, **named: Any) -> Tensor:
    """Decompose the backward of average pooling: each input element sums its windows' gradients."""
    pool = _Pool(x, *options, **named)
    return pool.sum_over_windows(gradient / pool.divisors)


class _Pool:
    """Windows of average pooling over the last dims of its input, whose sizes are `sizes`."""

    def __init__(
        self,
        x: Tensor,
        kernel: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor: int | None = None,
    ) -> None:
        self.sizes = sizes = x.shape[-max(len(kernel), 2) :]  # a single size stands for two dims
        self.kernel, self.stride, self.padding = (
            list(values) if len(values) == len(sizes) else [values[0]] * len(sizes)
            for values in (kernel, stride or kernel, padding)
        )
        self.extra = []
        """Elements to add at the end of each dim, after the padding, for the last window."""
        for n, k, s, p in zip(sizes, self.kernel, self.stride, self.padding, strict=True):
            left = n + 2 * p - k
            windows = left // s + 1
            if ceil_mode and left % s and windows * s < n + p:
                windows += 1
            self.extra.append((windows - 1) * s + k - n - 2 * p)
        self.divisors = divisor or self._count(x, count_include_pad)
        """Number to divide the sum of each window by."""

    def sum_windows(self, x: Tensor, *, with_padding: float = 0.0) -> Tensor:
        """Return the sum over each window, with a value for the elements of the padding."""
        x = aten.constant_pad_nd.default(x, self._pad([0] * len(self.sizes)), with_padding)
        x = aten.constant_pad_nd.default(x, self._pad(self.extra, both=False), 0.0)
        first = x.ndim - len(self.sizes)
        for dim, (k, s) in enumerate(zip(self.kernel, self.stride, strict=True)):
            x = aten.unfold.default(x, first + dim, k, s)
        return aten.sum.dim_IntList(x, list(range(-len(self.sizes), 0)))

    def _count(self, x: Tensor, with_padding: bool) -> Tensor | int:
        """Return the number of elements of each window."""
        if not any(e > 0 for e in self.extra) and (with_padding or not any(self.padding)):
            return math.prod(self.kernel)
        ones = torch.ones(tuple(self.sizes), dtype=x.dtype, device=x.device)
        return self.sum_windows(ones, with_padding=float(with_padding))

    def sum_over_windows(self, windows: Tensor) -> Tensor:
        """Return, for each element of the input, the sum of the values of its windows."""
        count = len(self.sizes)
        first = windows.ndim - count
        for dim, (k, s) in enumerate(zip(self.kernel, self.stride, strict=True)):
            windows = torch.movedim(windows, first + dim, -1)
            n, p, extra = self.sizes[dim], self.padding[dim], self.extra[dim]
            spread = aten.constant_pad_nd.default(torch.unsqueeze(windows, -1), [0, s - 1], 0.0)
            spread = torch.flatten(spread, -2)  # window i begins at element i * stride
            total = n + 2 * p + extra
            spread = aten.constant_pad_nd.default(spread, [k - 1, total - spread.shape[-1]], 0.0)
            windows = aten.sum.dim_IntList(aten.unfold.default(spread, -1, k, 1), [-1])
            length = min(n, total - p)
            windows = aten.slice.Tensor(windows, -1, p, p + length)
            windows = aten.constant_pad_nd.default(windows, [0, n - length], 0.0)
            windows = torch.movedim(windows, -1, first + dim)
        return windows

    def _pad(self, extra: Sequence[int], *, both: bool = True) -> list[int]:
        """Return the padding of all dims as `constant_pad_nd` takes it, the last dim first."""
        padding = self.padding if both else [0] * len(self.sizes)
        pairs = zip(padding, extra, strict=True)
        return [size for p, e in reversed(list(pairs)) for size in (p, p + e)]
