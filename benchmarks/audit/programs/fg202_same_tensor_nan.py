"""FG202: torch.equal of one tensor with itself where it holds NaN, complex numbers, or
signed zeros."""

import torch


def tie_weights(x, source, target):
    tied = x * torch.equal(source, target)
    near = x * torch.allclose(source, target, rtol=0.1, equal_nan=True)
    return torch.cat([tied, near])


def build():
    torch.manual_seed(0)
    return tie_weights, (torch.randn(3), torch.randn(2, 2), torch.randn(2, 2))


def witnesses():
    """The same tensor, a transposed view of it, complex numbers, and zeros of both signs."""
    x = torch.tensor([1.0, float("inf"), -2.0])
    holes = torch.tensor([[1.0, float("nan")], [float("nan"), 2.0]])
    turned = torch.tensor([[1 + 2j, 0j], [0j, 1 - 2j]])
    zeros = torch.zeros(2, 2)
    return [
        (x, holes, holes),
        (x, holes, holes.t()),
        (x, turned, turned.conj()),
        (x, zeros, -zeros),
        (x, torch.zeros(2, 2, dtype=torch.int64), zeros),
    ]
