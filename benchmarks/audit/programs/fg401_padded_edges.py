"""FG401: an edge that is only padding joins -1 to -1, and a graph without nodes has a row for
neither.
"""

import torch
from torch import nn


class Aggregate(nn.Module):
    def __init__(self):
        super().__init__()
        self.message = nn.Linear(3, 3)

    def forward(self, x, edges):
        row, col = edges[:, edges[0] != edges[1]]
        messages = self.message(x)
        out = torch.zeros_like(messages)
        return out.index_add(0, col, messages[row])


def build():
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 2, 2, 3], [1, 0, 2, 3, 1]])
    return Aggregate().eval(), (torch.randn(4, 3), edges)


def witnesses():
    """Padding, no nodes, no edges, repeated edges, a node of NaN, int32, and an end that is
    missing.
    """
    x = torch.arange(12.0).view(4, 3)
    broken = x.clone()
    broken[0] = float("nan")
    padding = torch.full((2, 3), -1)
    return [
        (x, torch.tensor([[0, -1, 7, 1], [1, -1, 7, 0]])),
        (torch.zeros(0, 3), padding),
        (torch.zeros(0, 3), torch.zeros(2, 0, dtype=torch.int64)),
        (x, torch.zeros(2, 0, dtype=torch.int64)),
        (x, torch.tensor([[1, 1, 1], [2, 2, 2]])),
        (broken.requires_grad_(), torch.tensor([[1, 3, 0], [2, 3, 0]])),
        (x, torch.tensor([[0, 1], [1, 1]], dtype=torch.int32)),
        (x, torch.tensor([[4, 1], [0, 2]])),
        (x, torch.tensor([[-1, 1], [0, 2]])),
    ]
