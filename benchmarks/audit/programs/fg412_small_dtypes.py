"""FG412: a constant that the dtype of the logits cannot hold is assigned or refused as an index assignment does."""

import torch
from torch import nn


class TailCut(nn.Module):
    def __init__(self, tail):
        super().__init__()
        self.tail = tail

    def forward(self, scores):
        order = scores.argsort(descending=True)
        ranks = torch.arange(scores.shape[0], device=scores.device)
        weak = ranks >= scores.shape[0] - self.tail
        scores[order[weak]] = -1e9
        return scores


def build():
    torch.manual_seed(0)
    return TailCut(3).eval(), (torch.randn(8),)


def witnesses():
    """Half precision, integers, bytes, a leaf that asks for a gradient, ties, and every second place of a tensor."""
    return [
        (torch.arange(8.0).half(),),
        (torch.arange(8),),
        (torch.arange(8, dtype=torch.uint8),),
        (torch.arange(8, dtype=torch.int16),),
        (torch.arange(8.0, requires_grad=True),),
        (torch.ones(8, dtype=torch.float64),),
        (torch.arange(16.0)[::2],),
    ]
