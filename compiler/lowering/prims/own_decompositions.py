"""Decompositions that torch lacks, and those that lead to the canonical overload of a function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from fullgraph.compiler.lowering.prims.pooling import pooling_decompositions
from fullgraph.compiler.lowering.prims.resizing import resizing_decompositions

Number = int | float | bool
aten = torch.ops.aten


def own_decompositions() -> Mapping[str, Callable[..., object]]:
    """Return our decompositions by operator: "max.dim" → a function of the operator's arguments."""
    table: dict[str, Callable[..., object]] = {
        f"{name}.Scalar": functools.partial(_with_scalar, name)
        for name in ("add", "sub", "mul", "div")
    }
    for kind in "tuvw":
        name = f"special_shifted_chebyshev_polynomial_{kind}.default"
        table[name] = functools.partial(_shifted_polynomial, name.replace("shifted_", ""))
    for name in _POLYNOMIALS.split():
        table |= {
            f"special_{name}.{which}_scalar": functools.partial(_polynomial, f"special_{name}")
            for which in "xn"
        }
    return {**table, **_OWN, **pooling_decompositions(), **resizing_decompositions()}


def _with_scalar(name: str, x: Tensor, other: Number, *rest: object) -> object:
    return getattr(aten, name).Tensor(x, other, *rest)


def _div_mode(x: Tensor, other: Number, *, rounding_mode: str | None) -> Tensor:
    return aten.div.Tensor_mode(x, other, rounding_mode=rounding_mode)


def _full_like(x: Tensor, value: Number, **options: object) -> Tensor:
    given = {key: one for key, one in options.items() if key in ("dtype", "device") and one}
    return aten.full.default(x.shape, value, **{"dtype": x.dtype, "device": x.device, **given})


def _scalar_tensor(value: Number, **options: object) -> Tensor:
    given = {key: one for key, one in options.items() if one is not None}
    return aten.full.default([], value, **{"dtype": torch.get_default_dtype(), **given})


def _copy(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """Decompose `x.copy_(source)`, whose result has the strides of `x`."""
    moved = aten._to_copy.default(source, dtype=x.dtype, device=x.device)
    result = aten.expand.default(moved, x.shape)
    if result.stride() == x.stride():
        return result
    order = sorted(range(x.dim()), key=x.stride().__getitem__, reverse=True)
    permuted = aten.permute.default(result, order)
    dense = aten.clone.default(permuted, memory_format=torch.contiguous_format)
    return aten.permute.default(dense, [order.index(dim) for dim in range(x.dim())])


def _weight_norm_backward(
    gradient: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    others = [one for one in range(v.dim()) if one != dim]
    along = aten.sum.dim_IntList(gradient * v, others, True)
    norms = norms.to(v.dtype)
    return g / norms * (gradient - v * along / (norms * norms)), along / norms


def _where(condition: Tensor, x: Tensor | Number, y: Tensor | Number) -> Tensor:
    """Decompose a prim of operands of one dtype, of which one may be a number."""
    known = x if isinstance(x, Tensor) else y if isinstance(y, Tensor) else None
    dtype = known.dtype if known is not None else torch.result_type(x, y)
    operands = [
        one
        if isinstance(one, Tensor)
        else aten.full.default([], one, dtype=dtype, device=condition.device)
        for one in (x, y)
    ]
    return aten.where.self(condition, *operands)


def _sum(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return aten.sum.dim_IntList(x, None, dtype=dtype)


def _prod(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return aten.prod.dim_int(aten.view.default(x.contiguous(), [-1]), 0, dtype=dtype)


def _any(x: Tensor) -> Tensor:
    return aten.any.dims(x, None)


def _any_dim(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    return aten.any.dims(x, [dim], keepdim)


def _all(x: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    dims = [dim] if isinstance(dim, int) else dim
    return aten.logical_not(aten.any.dims(aten.logical_not(x), dims, keepdim))


def _max_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return aten.amax(x, [dim], keepdim), aten.argmax(_as_number(x), dim, keepdim)


def _min_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return aten.amin(x, [dim], keepdim), aten.argmin(_as_number(x), dim, keepdim)


def _as_number(x: Tensor) -> Tensor:
    """Return an operand of argmax and argmin, which take no bool."""
    return aten._to_copy.default(x, dtype=torch.uint8) if x.dtype == torch.bool else x


def _max(x: Tensor) -> Tensor:
    return aten.amax(x, [])


def _min(x: Tensor) -> Tensor:
    return aten.amin(x, [])


def _var_mean(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: Number | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return variance and mean of complex numbers by their parts; leave real ones as they are."""
    if not x.is_complex():
        return NotImplemented
    options = {"correction": correction, "keepdim": keepdim}
    real, imag = (aten.var_mean.correction(f(x), dim, **options) for f in (torch.real, torch.imag))
    return real[0] + imag[0], torch.complex(real[1], imag[1])


def _var(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: Number | None = None,
    keepdim: bool = False,
) -> Tensor:
    result: Tensor = aten.var_mean.correction(x, dim, correction=correction, keepdim=keepdim)[0]
    return result


def _transpose(x: Tensor, first: int, second: int) -> Tensor:
    order = list(range(x.ndim))
    if order:
        order[first], order[second] = order[second], order[first]
    return aten.permute.default(x, order)


def _squeeze(x: Tensor) -> Tensor:
    return aten.squeeze.dims(x, [dim for dim, size in enumerate(x.shape) if size == 1])


def _squeeze_dim(x: Tensor, dim: int) -> Tensor:
    return aten.squeeze.dims(x, [dim])


def _reshape_alias(x: Tensor, sizes: Sequence[int], strides: Sequence[int]) -> Tensor:
    return aten.view.default(x, sizes)


def _index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    index = torch.unsqueeze(index, 0) if index.ndim == 0 else index
    if x.ndim == 0:
        return aten.squeeze.dims(aten.index.Tensor(torch.unsqueeze(x, 0), [index]), [0])
    return aten.index.Tensor(x, [*[None] * (dim % x.ndim), index])


def _embedding(weight: Tensor, index: Tensor, *rest: object) -> Tensor:
    return aten.index.Tensor(weight, [index])


_POLYNOMIALS = """
    chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
    shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
    shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l
    legendre_polynomial_p
"""


def _polynomial(name: str, x: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Return a polynomial of a degree, of which one is a number."""
    known = x if isinstance(x, Tensor) else n
    assert isinstance(known, Tensor)
    operands = [
        one if isinstance(one, Tensor) else aten.full.default([], one, device=known.device)
        for one in (x, n)
    ]
    result: Tensor = getattr(aten, name).default(*operands)
    return result


def _shifted_polynomial(name: str, x: Tensor, n: Tensor) -> Tensor:
    """Return a polynomial of the operand as a floating-point number, scaled from [0, 1]."""
    if not x.is_floating_point():
        dtype = n.dtype if n.is_floating_point() else torch.get_default_dtype()
        x = aten._to_copy.default(x, dtype=dtype)
    function = getattr(aten, name.removesuffix(".default")).default
    result: Tensor = function(aten.sub.Tensor(aten.add.Tensor(x, x), 1), n)
    return result


_OWN: Mapping[str, Callable[..., object]] = {
    "div.Scalar_mode": _div_mode,
    "prims.where.default": _where,
    "full_like.default": _full_like,
    "_efficientzerotensor.default": lambda sizes, **options: aten.full.default(sizes, 0, **options),
    "scalar_tensor.default": _scalar_tensor,
    "copy.default": _copy,
    "_weight_norm_interface_backward.default": _weight_norm_backward,
    "detach.default": lambda x: aten.alias.default(x),
    "sum.default": _sum,
    "prod.default": _prod,
    "any.default": _any,
    "any.dim": _any_dim,
    "all.default": _all,
    "all.dim": _all,
    "all.dims": _all,
    "max.dim": _max_dim,
    "min.dim": _min_dim,
    "max.default": _max,
    "min.default": _min,
    "var.correction": _var,
    "var_mean.correction": _var_mean,
    "t.default": lambda x: _transpose(x, 0, 1) if x.ndim == 2 else aten.alias.default(x),
    "transpose.int": _transpose,
    "squeeze.default": _squeeze,
    "squeeze.dim": _squeeze_dim,
    "_unsafe_view.default": lambda x, sizes: aten.view.default(x, sizes),
    "_reshape_alias.default": _reshape_alias,
    "index_select.default": _index_select,
    "embedding.default": _embedding,
    "polar.default": lambda r, angle: torch.complex(r * angle.cos(), r * angle.sin()),
    "special_modified_bessel_i0.default": lambda x: aten.i0.default(x),
    "special_modified_bessel_i1.default": lambda x: aten.special_i1.default(x),
}
