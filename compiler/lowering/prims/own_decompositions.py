"""Decompositions that torch lacks, or that lead to the canonical overload, or end in prims."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from fullgraph.compiler.lowering.prims.canonical import POLYNOMIALS
from fullgraph.compiler.lowering.prims.complex_functions import complex_decompositions
from fullgraph.compiler.lowering.prims.foreach import foreach_decompositions
from fullgraph.compiler.lowering.prims.resizing import resizing_decompositions
from fullgraph.compiler.private import dim_order

Number = int | float | bool
aten = torch.ops.aten
prims = torch.ops.prims


def own_decompositions() -> Mapping[str, Callable[..., object]]:
    """Return our decompositions by operator: "max.dim" → a function of the operator's arguments."""
    shifted = [name for name in POLYNOMIALS if name.startswith("chebyshev")]
    table: dict[str, Callable[..., object]] = {
        f"special_shifted_{name}.default": functools.partial(_shifted_polynomial, name)
        for name in shifted
    }
    for name in (*POLYNOMIALS, *(f"shifted_{name}" for name in shifted)):
        table |= {
            f"special_{name}.{which}_scalar": functools.partial(_polynomial, name) for which in "xn"
        }
    return {
        **table,
        **_OWN,
        **resizing_decompositions(),
        **foreach_decompositions(),
        **complex_decompositions(),
    }


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
    return _copy_strided(result, x.stride())


def order_dims(x: Tensor, order: Sequence[int] | None) -> Tensor:
    """Return a copy whose memory has the dims in an order; the tensor itself for None."""
    if order is None:
        return x
    permuted = aten.permute.default(x, order)
    dense = aten.clone.default(permuted, memory_format=torch.contiguous_format)
    return aten.permute.default(dense, [order.index(dim) for dim in range(x.dim())])


def _copy_strided(x: Tensor, strides: Sequence[int]) -> Tensor:
    """Return a tensor that has some strides, or a copy of it whose dims are in their order."""
    return order_dims(x, dim_order(x, strides))


def _weight_norm_backward(
    gradient: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    others = [one for one in range(v.dim()) if one != dim]
    along = aten.sum.dim_IntList(gradient * v, others, True)
    norms = norms.to(v.dtype)
    return g / norms * (gradient - v * along / (norms * norms)), along / norms


def _embedding_renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale the rows that an embedding reads to a norm, as eager does before it reads them."""
    unread = torch.zeros(weight.shape[0], dtype=torch.bool, device=weight.device)
    is_read = aten.index_put.default(unread, [indices.flatten()], torch.ones_like(unread[0]))
    norms = torch.linalg.vector_norm(weight, norm_type, 1)
    scale = torch.where(is_read & (norms > max_norm), max_norm / (norms + 1e-7), 1.0)
    return weight * scale.to(weight.dtype).unsqueeze(1)


def _as_tensors(operands: Sequence[Tensor | Number], **options: object) -> list[Tensor]:
    """Return operands with each number as a tensor."""
    return [
        one if isinstance(one, Tensor) else aten.full.default([], one, **options)
        for one in operands
    ]


def _where(condition: Tensor, x: Tensor | Number, y: Tensor | Number) -> Tensor:
    """Decompose a prim of operands of one dtype, of which one may be a number."""
    known = x if isinstance(x, Tensor) else y if isinstance(y, Tensor) else None
    dtype = known.dtype if known is not None else torch.result_type(x, y)
    operands = _as_tensors((x, y), dtype=dtype, device=condition.device)
    return aten.where.self(condition, *operands)


def _prod(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return aten.prod.dim_int(aten.view.default(x.contiguous(), [-1]), 0, dtype=dtype)


def _extreme(name: str, x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Decompose `max.dim` or `min.dim`; argmax and argmin take no bool."""
    number = aten._to_copy.default(x, dtype=torch.uint8) if x.dtype == torch.bool else x
    values = getattr(aten, f"a{name}")(x, [dim], keepdim)
    return values, getattr(aten, f"arg{name}")(number, dim, keepdim)


def _var_mean(
    x: Tensor, dim: Sequence[int] | None = None, **options: Number | None
) -> tuple[Tensor, Tensor]:
    """Return variance and mean of complex numbers by their parts; leave real ones as they are."""
    if not x.is_complex():
        return NotImplemented
    real, imag = (aten.var_mean.correction(f(x), dim, **options) for f in (torch.real, torch.imag))
    return real[0] + imag[0], torch.complex(real[1], imag[1])


def _polynomial(name: str, x: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Return a polynomial of a degree, of which one is a number."""
    (device,) = (one.device for one in (x, n) if isinstance(one, Tensor))
    result: Tensor = getattr(aten, f"special_{name}").default(*_as_tensors((x, n), device=device))
    return result


def _shifted_polynomial(name: str, x: Tensor, n: Tensor) -> Tensor:
    """Return a polynomial of the operand as a floating-point number, scaled from [0, 1]."""
    if not x.is_floating_point():
        dtype = n.dtype if n.is_floating_point() else torch.get_default_dtype()
        x = aten._to_copy.default(x, dtype=dtype)
    scaled = aten.sub.Tensor(aten.add.Tensor(x, x), 1)
    result: Tensor = getattr(aten, f"special_{name}").default(scaled, n)
    return result


_OWN: Mapping[str, Callable[..., object]] = {
    **{f"{name}.Scalar": getattr(aten, name).Tensor for name in ("add", "sub", "mul", "div")},
    "div.Scalar_mode": aten.div.Tensor_mode,
    "prims.where.default": _where,
    "prims.copy_strided.default": _copy_strided,
    "prims.convert_element_type.default": lambda x, dtype: aten._to_copy.default(x, dtype=dtype),
    "embedding_renorm.default": _embedding_renorm,
    "full_like.default": _full_like,
    "_efficientzerotensor.default": lambda sizes, **options: aten.full.default(sizes, 0, **options),
    "scalar_tensor.default": _scalar_tensor,
    "copy.default": _copy,
    "_weight_norm_interface_backward.default": _weight_norm_backward,
    "prod.default": _prod,
    "any.default": lambda x: aten.any.dims(x, None),
    "any.dim": lambda x, dim, keepdim=False: aten.any.dims(x, [dim], keepdim),
    "max.dim": functools.partial(_extreme, "max"),
    "min.dim": functools.partial(_extreme, "min"),
    "max.default": lambda x: aten.amax(x, []),
    "min.default": lambda x: aten.amin(x, []),
    "var.correction": lambda x, dim=None, **options: aten.var_mean.correction(x, dim, **options)[0],
    "var_mean.correction": _var_mean,
    "polar.default": lambda r, angle: torch.complex(r * angle.cos(), r * angle.sin()),
    "special_modified_bessel_i0.default": aten.i0.default,
    "special_modified_bessel_i1.default": aten.special_i1.default,
}


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
