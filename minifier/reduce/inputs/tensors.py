"""Simpler versions of a tensor: smaller, with plainer properties, or with plainer elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import torch

from fullgraph.compiler.private import inner_tensors

LARGE = 1e6
"""Magnitude of an element above which it is special, as NaN and infinity are."""
_SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)
_SEEDS = (0, 1, 42)
_LISTABLE = 64
"""Number of elements up to which a literal lists them, so that fewer digits make it shorter."""


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is an ordinary strided one.

    It is not if it is sparse, quantized, lazily conjugated or negated, or a subclass that wraps
    others.
    """
    return not (
        tensor.layout is not torch.strided
        or tensor.is_quantized
        or tensor._is_zerotensor()
        or tensor.is_conj()
        or tensor.is_neg()
        or inner_tensors(tensor)
    )


def with_elements(model: torch.Tensor, elements: torch.Tensor) -> torch.Tensor:
    """Return a tensor with `elements`, and with the dtype, strides and autograd state of `model`.

    If the shapes differ, only the order of strides is kept. Raises RuntimeError if `model` is
    expanded and `elements` differ along the expanded axis.
    """
    elements = elements.to(model.dtype)
    expanded_axes = [
        axis
        for axis, (length, stride) in enumerate(zip(model.shape, model.stride(), strict=True))
        if stride == 0 and length > 1
    ]
    strides: Sequence[int] = model.stride()
    base = elements
    for axis in expanded_axes:
        base = base.narrow(axis, 0, min(1, base.shape[axis]))
    if expanded_axes and not torch.equal(
        base.expand_as(elements).nan_to_num(), elements.nan_to_num()
    ):
        raise RuntimeError("the elements along an expanded axis differ")
    if elements.shape != model.shape and _is_dense(model, expanded_axes):
        strides = _packed_strides(base.shape, strides)
    made = torch.empty_strided(base.shape, strides, dtype=model.dtype, device=model.device)
    made.copy_(base)
    return with_autograd_state(model, made.expand(elements.shape))


def with_autograd_state(model: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    """Return `made` as a Parameter, leaf or non-leaf, as `model` is, with its `requires_grad`.

    Integer tensors are only detached.
    """
    made = made.detach()
    if not (made.is_floating_point() or made.is_complex()):
        return made
    if isinstance(model, torch.nn.Parameter):
        return torch.nn.Parameter(made, model.requires_grad)
    made.requires_grad_(model.requires_grad)
    with torch.enable_grad():
        return made if model.is_leaf else made.clone()


def crop(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor | None:
    """Return a part of `tensor` with the shape `shape`, which must fit into the tensor's.

    If the tensor has a NaN or infinity, the part has one, too. None if its layout cannot be cut.
    """
    with suppress(RuntimeError, NotImplementedError), torch.no_grad():
        whole = tensor.detach()
        if tensor.layout in _SPARSE:
            part = _window(whole.to_dense(), shape).contiguous().to_sparse(layout=tensor.layout)
        elif tensor.layout is not torch.strided:
            part = _window(whole.to_dense(), shape).contiguous().to_mkldnn()
        elif is_plain(tensor):
            return with_elements(tensor, _window(whole, shape))
        else:
            part = _window(whole, shape)
        return with_autograd_state(tensor, part)
    return None


def _window(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Return a slice of `tensor` with the shape `shape`.

    If the tensor has a NaN or infinity, the slice contains the first one.
    """
    starts = [0] * tensor.dim()
    if is_plain(tensor) and tensor.is_floating_point() and tensor.device.type != "meta":
        special = (~tensor.isfinite()).nonzero()
        if len(special):
            starts = [max(0, int(at) - n + 1) for at, n in zip(special[0], shape, strict=True)]
    for axis, (start, length) in enumerate(zip(starts, shape, strict=True)):
        tensor = tensor.narrow(axis, start, length)
    return tensor


def _is_dense(tensor: torch.Tensor, expanded_axes: Sequence[int]) -> bool:
    """Return whether a tensor's elements have no gaps between them in memory.

    `expanded_axes` are ignored: all elements along them have the same address.
    """
    axes = [axis for axis in range(tensor.dim()) if axis not in expanded_axes]
    last = sum((tensor.shape[axis] - 1) * tensor.stride(axis) for axis in axes)
    count = 1
    for axis in axes:
        count *= tensor.shape[axis]
    return last + 1 == count


def _packed_strides(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Return strides for `shape` without gaps, in the order of `strides`.

    Shape (2, 3) and strides (1, 4) give [1, 2].
    """
    found, step = [0] * len(shape), 1
    for axis in sorted(range(len(shape)), key=lambda axis: (strides[axis], -axis)):
        found[axis] = step
        step *= max(1, shape[axis])
    return found


# --- plainer in what they are ---


def detach_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor without grad; as a plain tensor if it is a Parameter."""
    return tensor.detach() if tensor.requires_grad or type(tensor) is not torch.Tensor else tensor


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor in strided layout, dequantized, without lazy conjugation or negation."""
    if is_plain(tensor) or (inner_tensors(tensor) and tensor.layout is torch.strided):
        return tensor
    plain = tensor.detach()
    if tensor._is_zerotensor():
        plain = torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    elif tensor.is_quantized:
        plain = plain.dequantize()
    elif tensor.layout is not torch.strided:
        plain = plain.to_dense()
    return with_autograd_state(tensor, plain.resolve_conj().resolve_neg())


def contiguous(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor with default strides and a storage of exactly its size."""
    if not is_plain(tensor):
        return tensor
    storage = tensor.untyped_storage().nbytes() if tensor.device.type != "meta" else 0
    exact = storage in (0, tensor.numel() * tensor.element_size())
    if tensor.is_contiguous() and exact and tensor.stride() == _default_strides(tensor.shape):
        return tensor
    return with_autograd_state(
        tensor, tensor.detach().clone(memory_format=torch.contiguous_format).view(tensor.shape)
    )


def default_dtype(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor as float32, complex64 or int64; unchanged if it is bool or quantized."""
    dtype = tensor.dtype
    if tensor.is_quantized or dtype is torch.bool:
        return tensor
    wanted = torch.int64
    if dtype.is_floating_point or dtype.is_complex:
        wanted = torch.complex64 if dtype.is_complex else torch.float32
    return tensor if dtype is wanted else with_autograd_state(tensor, tensor.detach().to(wanted))


def _default_strides(shape: Sequence[int]) -> tuple[int, ...]:
    return torch.empty(tuple(shape), device="meta").stride()


Simplification = Callable[[torch.Tensor], torch.Tensor]
"""Returns a simpler tensor, or the tensor itself if it is simple already."""
SIMPLIFICATIONS: tuple[Simplification, ...] = (detach_tensor, dense, contiguous, default_dtype)
"""Each removes one special property."""


# --- plainer elements ---


def element_patterns(tensor: torch.Tensor, number: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (name, elements) of each pattern that can fill a tensor like `tensor`, plainest first.

    "zeros", "ones", "arange"; late ones keep elements of `tensor`, such as its NaNs. `number` is
    the index of the input and selects the seed of the last pattern, "random".
    """
    shape, dtype = tensor.shape, tensor.dtype
    count = tensor.numel()
    old = tensor.detach().cpu()
    yield "zeros", torch.zeros(shape, dtype=dtype)
    yield "ones", torch.ones(shape, dtype=dtype)
    if dtype.is_complex:
        yield "i", torch.full(shape, 1j, dtype=dtype)
        return
    special = _special(old)
    for value in special:
        yield f"full {value}", torch.full(shape, value, dtype=dtype)
    arange = torch.arange(count).reshape(shape)
    yield "arange", (arange % 2 if dtype is torch.bool else arange).to(dtype)
    if special:
        kept = ~old.isfinite() | (old.abs() > LARGE)
        one = torch.zeros(count, dtype=torch.bool)
        one[kept.reshape(-1).nonzero()[0]] = True
        yield "one special", torch.where(one.reshape(shape), old, torch.ones((), dtype=dtype))
        yield "only special", torch.where(kept, old, torch.ones((), dtype=dtype))
    if not dtype.is_floating_point:
        if dtype is not torch.bool:
            yield "small", old.clamp(0, 1)
        return
    yield "spread", torch.linspace(-2, 2, count).reshape(shape).to(dtype)
    if count <= _LISTABLE:
        yield "whole", old.round()
        yield "a digit", _round_elements(old, 1)
        yield "two digits", _round_elements(old, 2)
        yield "three digits", _round_elements(old, 3)
    generator = torch.Generator().manual_seed(_SEEDS[number % len(_SEEDS)])
    if count >= 3 and dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        yield "random", torch.randn(shape, generator=generator, dtype=dtype)


def _special(elements: torch.Tensor) -> list[float]:
    """Return the special values among float elements, each once: infinities, NaN, a large one.

    The large one is the element of greatest magnitude, if that is above `LARGE` (1e6). [] for
    integers.
    """
    if not elements.is_floating_point() or not elements.numel():
        return []
    wide = elements.double()
    found = [value for value in (float("inf"), -float("inf")) if (wide == value).any()]
    found += [float("nan")] * bool(wide.isnan().any())
    finite = wide[wide.isfinite()]
    if finite.numel() and finite.abs().max() > LARGE:
        found.append(float(finite[finite.abs().argmax()]))
    return found


def _round_elements(elements: torch.Tensor, digits: int) -> torch.Tensor:
    """Return `elements` rounded to `digits` significant digits: 0.1234 → 0.12 for 2."""
    flat = [float(f"{value:.{digits}g}") for value in elements.double().reshape(-1).tolist()]
    return torch.tensor(flat, dtype=torch.float64).reshape(elements.shape).to(elements.dtype)
