"""A relational layer adds up messages relation by relation."""

import torch
from torch import nn


class RelationalLayer(nn.Module):
    def __init__(self, width: int = 4, relations: int = 3) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(relations, width, width) * 0.2)
        self.root = nn.Linear(width, width)

    def forward(self, x, edges, kinds):
        out = self.root(x)
        for kind in range(self.weight.shape[0]):
            picked = edges[:, kinds == kind]
            count = torch.zeros(len(x)).index_add_(0, picked[1], torch.ones(picked.shape[1]))
            total = torch.zeros_like(x).index_add_(0, picked[1], x[picked[0]])
            out = out + (total / count.clamp(min=1)[:, None]) @ self.weight[kind]
        return out


def build():
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 1, 2, 2, 3], [0, 0, 1, 0, 1, 1]])
    return RelationalLayer(), (torch.randn(4, 4), edges, torch.tensor([0, 1, 1, 0, 2, 1]))
