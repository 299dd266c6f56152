"""FG815: the bias is kept for as long as the mask stays where it is, though its values change."""

import torch
from torch import nn


class BiasedAttention(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.project = nn.Linear(width, width)
        self.mask = torch.zeros(0)
        self.bias = None

    def forward(self, x, mask, fade=1.0):
        if mask.data_ptr() != self.mask.data_ptr():
            self.mask = mask
            self.bias = (1.0 - mask) * -4.0
        h = self.project(x)
        scores = h @ h.transpose(-1, -2) + self.bias
        if fade != 1.0:
            mask.mul_(fade)
        return scores.softmax(-1) @ h


def build():
    torch.manual_seed(0)
    return BiasedAttention().eval(), (torch.randn(3, 8), torch.ones(3, 3).tril())


def witnesses():
    """Masks that fade from call to call, and one that stays as it is."""
    torch.manual_seed(1)
    x = torch.randn(3, 8)
    mask = torch.ones(3, 3).tril()
    return [(x, mask, 0.5), (x, mask.clone(), 0.0), (x, torch.rand(3, 3), 1.0)]
