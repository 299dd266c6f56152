"""FG233: an input that asks for a gradient has no numpy(), which raises, and its mean
has a gradient."""

import numpy as np
import torch
from torch import nn


class MeanScale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, width)

    def forward(self, x, reference):
        scale = float(np.mean(x.detach().cpu().numpy()))
        shift = float(np.std(reference.numpy()))
        return self.proj(x * scale) + shift


def build():
    torch.manual_seed(0)
    return MeanScale(4).eval(), (torch.randn(2, 4), torch.randn(6))


def witnesses():
    """A reference that asks for a gradient, an input that does, and references of one
    and no numbers."""
    torch.manual_seed(1)
    leaf = torch.randn(2, 4, requires_grad=True)
    return [
        (torch.ones(2, 4), torch.randn(6, requires_grad=True)),
        (leaf, torch.randn(6)),
        (torch.ones(2, 4), torch.ones(1)),
        (torch.ones(2, 4), torch.ones(0)),
    ]
