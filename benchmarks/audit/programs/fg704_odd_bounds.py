"""FG704: bounds that are equal, out of the range of the dtype, or no integers raise or warn as `random_` does."""

import torch
from torch import nn


class StyleMixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.mixed = 0

    def forward(self, ws, low=1, high=None):
        if high is None:
            high = ws.shape[1]
        self.mixed += 1
        cutoff = torch.empty([], dtype=torch.int64, device=ws.device).random_(low, high)
        steps = torch.empty(len(ws), 2, dtype=ws.dtype).random_(low, high)
        return cutoff, steps


def build():
    torch.manual_seed(0)
    return StyleMixing().eval(), (torch.randn(2, 6, 4),)


def witnesses():
    """One layer only, floats as bounds, bounds out of the range of bytes and halves, tensors, and huge numbers."""
    ws = torch.ones(2, 6, 4)
    return [
        (torch.ones(2, 1, 4),),
        (ws, 1, 5.0),
        (ws, 1.5, 5),
        (ws.to(torch.uint8), 0, 300),
        (ws.to(torch.int8), -200, 5),
        (ws.half(), 0, 5000),
        (ws, 0, 2**24 + 5),
        (ws.bool(), 0, 2),
        (ws, torch.tensor(1), torch.tensor(4)),
        (ws, True, 5),
        (ws.double(), -(2**63), 2**63 - 1),
        (ws, 0, 2**63),
    ]
