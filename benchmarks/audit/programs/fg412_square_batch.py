"""FG412: on a batch of logits the indices select whole rows, which a scatter of single places does not do."""

import torch
from torch import nn


class NucleusFilter(nn.Module):
    def __init__(self, top_p):
        super().__init__()
        self.top_p = top_p

    def forward(self, logits):
        logits = logits.clone()
        ordered, order = logits.sort(descending=True)
        remove = ordered.softmax(-1).cumsum(-1) > self.top_p
        logits[order[remove]] = float("-inf")
        return logits


def build():
    torch.manual_seed(0)
    return NucleusFilter(0.8).eval(), (torch.randn(12),)


def witnesses():
    """A square batch, a batch of one row more than the vocabulary, and one that is too small for its indices."""
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(5, 5, generator=generator),),
        (torch.tensor([[4.0, 0.0], [5.0, 1.0], [6.0, 2.0]]),),
        (torch.randn(2, 6, generator=generator),),
    ]
