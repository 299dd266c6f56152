"""Conjugate gradients stop once the residual is small, and complain if it never is."""

import warnings

import torch
from torch import nn


class ConjugateGradient(nn.Module):
    def __init__(self, size: int = 6, steps: int = 8, tolerance: float = 1e-3) -> None:
        super().__init__()
        root = torch.randn(size, size) / size
        self.register_buffer("matrix", root @ root.T + torch.eye(size))
        self.steps, self.tolerance = steps, tolerance

    def forward(self, rhs):
        scale = rhs.norm(dim=0, keepdim=True)
        scale = scale.masked_fill(scale < 1e-10, 1.0)
        solution, residual = torch.zeros_like(rhs), rhs / scale
        if not torch.equal(residual, residual):
            raise RuntimeError("the right-hand side has entries that are not a number")
        direction, square, reached = residual, residual.square().sum(0, keepdim=True), False
        for step in range(self.steps):
            image = self.matrix @ direction
            length = square / (direction * image).sum(0, keepdim=True).clamp(min=1e-10)
            solution = solution + length * direction
            residual = residual - length * image
            following = residual.square().sum(0, keepdim=True)
            if step >= 2 and bool(residual.norm(dim=0).mean() < self.tolerance):
                reached = True
                break
            direction = residual + following / square.clamp(min=1e-10) * direction
            square = following
        if not reached:
            warnings.warn(f"not converged after {self.steps} steps", stacklevel=2)
        return solution * scale


def build():
    torch.manual_seed(0)
    return ConjugateGradient(), (torch.randn(6, 2),)
