"""Tensors that no public function makes: ZeroTensors, conjugate views, results with a leaf."""

from __future__ import annotations

import torch


def zero_tensor_like(tensor: torch.Tensor) -> torch.Tensor:
    """Return a ZeroTensor, a tensor without memory that autograd makes, with `tensor`'s shape."""
    return torch._efficientzerotensor(tuple(tensor.shape), dtype=tensor.dtype, device=tensor.device)


def view_with_bits_of(plain: torch.Tensor, model: torch.Tensor) -> torch.Tensor:
    """Return a view of `plain` with the lazy conjugate bit and negative bit that `model` has."""
    view = plain.conj() if model.is_conj() else plain
    return torch._neg_view(view) if model.is_neg() else view


def compute_from_leaf(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a non-leaf tensor in the memory of `values`, and the leaf it was computed from.

    A backward pass puts the gradient of the tensor on the leaf.
    """
    leaf = values.detach().requires_grad_()
    with torch.enable_grad():
        return _Identity.apply(leaf, [values]), leaf


def mark_dynamic(tensor: torch.Tensor, dimension: int, bounds: tuple[int, int] | None) -> None:
    """Mark a dimension as dynamic for torch.compile.

    `bounds` are (smallest size, largest size); None means no bounds.
    """
    limits = {} if bounds is None else {"min": bounds[0], "max": bounds[1]}
    torch._dynamo.mark_dynamic(tensor, dimension, **limits)


class _Identity(torch.autograd.Function):
    """Function whose result is neither a leaf nor a view of one; its gradient is passed through."""

    @staticmethod
    def forward(ctx: object, leaf: torch.Tensor, values: list[torch.Tensor]) -> torch.Tensor:
        """Return `values[0]` as if it were computed from `leaf`."""
        return values[0]

    @staticmethod
    def backward(ctx: object, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return the gradient of the result as that of `leaf`."""
        return gradients[0], None
