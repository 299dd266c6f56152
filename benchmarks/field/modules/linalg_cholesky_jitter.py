"""A Gaussian process adds jitter to its kernel until the factorization works."""

import torch
from torch import nn


def safe_cholesky(matrix, tries: int = 3):
    factor, info = torch.linalg.cholesky_ex(matrix)
    if info.max() == 0:
        return factor
    missing = int(matrix.isnan().sum())
    if missing:
        raise ValueError(f"the kernel has {missing} NaN")
    jitter = 1e-6
    for _ in range(tries):
        matrix = matrix + jitter * (info > 0).float() * torch.eye(matrix.shape[-1])
        factor, info = torch.linalg.cholesky_ex(matrix)
        if info.max() == 0:
            return factor
        jitter *= 10
    raise RuntimeError("no jitter makes the kernel positive definite")


class KernelRegression(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, x, y):
        kernel = torch.exp(-torch.cdist(x, x).square() / self.scale.exp()) + 0.1 * torch.eye(len(x))
        factor = safe_cholesky(kernel)
        return torch.cholesky_solve(y[:, None], factor), factor.diagonal().log().sum()


def build():
    torch.manual_seed(0)
    return KernelRegression(), (torch.randn(6, 2), torch.randn(6))
