"""FG102: the mask is bool in ordinary calls, and integer in others, where ~ is no `not`."""

import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x, invalid):
        assert not invalid.max(), "some rows are invalid"
        return self.linear(x).mean(0)


def build():
    torch.manual_seed(0)
    return Pool().eval(), (torch.randn(3, 4), torch.zeros(3, dtype=torch.bool))


def witnesses():
    """The mask has a one or none, as another dtype."""
    torch.manual_seed(1)
    x = torch.randn(3, 4)
    return [
        (x, torch.tensor([False, True, False])),
        (x, torch.tensor([0, 1, 0])),
        (x, torch.tensor([0, 0, 0])),
        (x, torch.tensor([0, 255, 0], dtype=torch.uint8)),
        (x, torch.tensor([0.0, 0.5, 0.0])),
    ]
