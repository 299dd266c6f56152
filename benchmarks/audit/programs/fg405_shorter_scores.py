"""FG405: indices fit a tensor that is longer than the mask, and know what the scores were before."""

import torch
from torch import nn


class HardExamples(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, weight, score, loss):
        keep = (score > 0.5).nonzero(as_tuple=True)
        weight[keep] = 0
        return (self.scale * loss)[keep].mean()


def build():
    torch.manual_seed(0)
    return HardExamples(), (torch.ones(8), torch.rand(8), torch.randn(8))


def witnesses():
    """A longer loss, a longer weight, scores that are the weight or the loss, a table, a number,
    none.
    """
    score = torch.tensor([0.9, 0.1, 0.7])
    loss = torch.tensor([1.0, float("nan"), 3.0, 5.0])
    table = torch.linspace(0, 1, 9).view(3, 3)
    return [
        (torch.ones(3), score, loss.clone().requires_grad_()),
        (torch.ones(5), score, loss[:3]),
        (score, score, loss[:3]),
        (torch.ones(3), score, score),
        (score, score, score),
        (table, score, table),
        (torch.ones(3, 3), table, table),
        (torch.ones(2), score, loss),
        (torch.ones(3), torch.zeros(3), loss),
        (torch.ones(3), torch.full((3,), float("nan")), loss),
        (torch.tensor(1.0), torch.tensor(0.9), torch.tensor(2.0)),
    ]
