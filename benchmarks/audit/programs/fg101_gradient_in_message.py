"""FG101: the message says whether the tensor asks for a gradient, which no ordinary input does."""

import torch


def cosine(a, b, eps=1e-6):
    length = a.norm(dim=-1)
    if (length < eps).any():
        row = int(length.argmin())
        raise ZeroDivisionError(
            f"row {row} is zero (gradient: {a.requires_grad}, grad mode: {torch.is_grad_enabled()})"
        )
    return (a * b).sum(-1) / (length * b.norm(dim=-1))


def build():
    torch.manual_seed(0)
    return cosine, (torch.randn(3, 4), torch.randn(3, 4))


def witnesses():
    """A zero row, with and without a gradient, and two that tie."""
    torch.manual_seed(1)
    b = torch.randn(3, 4)
    zero = torch.randn(3, 4)
    zero[1:] = 0
    return [
        (zero.clone(), b),
        (zero.clone().requires_grad_(), b),
        (torch.randn(3, 4).requires_grad_(), b),
    ]
