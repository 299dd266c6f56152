"""FG408: logits of one class more than the module knows make the counts one longer."""

import torch
from torch import nn


class ExpertCounts(nn.Module):
    def __init__(self, experts=4):
        super().__init__()
        self.experts = experts
        self.register_buffer("total", torch.zeros(experts, dtype=torch.int64))

    def forward(self, logits):
        chosen = logits.argmax(dim=-1)
        counts = torch.bincount(chosen.flatten(), minlength=self.experts)
        self.total += counts[: self.experts]
        return counts / counts.sum()


def build():
    torch.manual_seed(0)
    return ExpertCounts(), (torch.randn(2, 5, 4),)


def witnesses():
    """One class more that is chosen, and that is not, fewer classes, no row, NaN, ties, no class."""
    logits = torch.eye(4)
    return [
        (torch.eye(5),),
        (torch.eye(5)[:3],),
        (torch.eye(2),),
        (logits[:0],),
        (torch.full((2, 4), float("nan")),),
        (torch.zeros(3, 4),),
        (logits[0],),
        (torch.zeros(3, 0),),
        (torch.randint(9, (3, 6), generator=torch.Generator().manual_seed(3)),),
    ]
