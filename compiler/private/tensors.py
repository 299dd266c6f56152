"""Tensors whose elements are not simply what lies in their memory."""

from __future__ import annotations

import torch


def zeros_like(tensor: torch.Tensor) -> torch.Tensor:
    """A ZeroTensor, as autograd makes them: it has a shape and no memory."""
    return torch._efficientzerotensor(tuple(tensor.shape), dtype=tensor.dtype, device=tensor.device)


def read_like(plain: torch.Tensor, model: torch.Tensor) -> torch.Tensor:
    """`plain`, conjugated and negated on reading if `model` is."""
    read = plain.conj() if model.is_conj() else plain
    return torch._neg_view(read) if model.is_neg() else read
