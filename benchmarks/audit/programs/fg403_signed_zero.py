"""FG403: adding zero where nothing is selected turns -0.0 into 0.0, which the angle shows."""

import torch


def headings(dx, dy, drift, moving):
    dy = dy.clone()
    dy[moving] += drift[moving]
    return torch.atan2(dy, dx)


def build():
    torch.manual_seed(0)
    return headings, (
        torch.randn(3, 5),
        torch.randn(3, 5),
        torch.randn(3, 5),
        torch.rand(3, 5) > 0.5,
    )


def witnesses():
    """Zeros of both signs, a mask of rows of a square, repeated indices, bytes, integers, other
    dtypes.
    """
    dx = torch.full((3, 3), -1.0)
    dy = torch.tensor([[-0.0, 0.0, 1.0]] * 3)
    drift = torch.tensor([[1.0, float("nan"), 2.0], [0.5, -1.0, -0.0], [0.0, 0.0, 3.0]])
    rows = torch.tensor([True, False, False])
    return [
        (dx, dy, drift, drift > 0.75),
        (dx, dy, drift, rows),
        (dx, dy, drift, rows.long()),
        (dx, dy, drift, rows.to(torch.uint8)),
        (dx, dy.requires_grad_(), drift.clone().requires_grad_(), drift > 0.75),
        (dx, dy.detach().clone(), drift.double(), rows),
        (dx, dy.detach().half(), drift, rows),
        (dx, dy.detach().long(), drift, rows),
        (dx, dy.detach().clone(), drift[:, :1], rows),
    ]
