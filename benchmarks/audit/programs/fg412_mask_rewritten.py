"""FG412: the mask is rewritten after it selected the indices, so the assignment must use its earlier value."""

import torch
from torch import nn


class TypicalFilter(nn.Module):
    def __init__(self, mass):
        super().__init__()
        self.mass = mass

    def forward(self, logits):
        ordered, order = logits.sort(descending=True)
        remove = ordered.softmax(-1).cumsum(-1) > self.mass
        dropped = order[remove]
        remove[0] = False
        kept = (~remove).sum()
        logits[dropped] = float("-inf")
        return logits, kept


def build():
    torch.manual_seed(0)
    return TypicalFilter(0.9).eval(), (torch.randn(10),)


def witnesses():
    """One logit holds nearly all the mass; so does each of a single logit and a NaN."""
    peaked = torch.zeros(6)
    peaked[2] = 12.0
    return [(peaked,), (torch.tensor([1.0]),), (torch.tensor([0.0, float("nan"), 3.0]),)]
