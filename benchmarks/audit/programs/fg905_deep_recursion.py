"""FG905: the helper calls itself once for each peak, as deep as Python allows for long signals."""

import torch
from torch import nn


class Peaks(nn.Module):
    def __init__(self, reach=1, floor=0.0):
        super().__init__()
        self.reach = reach
        self.floor = floor
        self.gain = nn.Parameter(torch.tensor(2.0))

    def _peel(self, levels):
        place = int(levels.argmax())
        height = levels[place].item()
        if not height > self.floor:
            return []
        rest = levels.clone()
        rest[max(0, place - self.reach) : place + self.reach + 1] = self.floor
        return [place, *self._peel(rest)]

    def forward(self, levels):
        places = self._peel(levels.detach())
        return levels[places] * self.gain


def build():
    torch.manual_seed(0)
    return Peaks(), (torch.rand(12),)


def witnesses():
    """Three and six hundred peaks, equal levels, none above the floor, and no level at all."""
    torch.manual_seed(1)
    return [
        (torch.rand(1800).view(-1, 3).mul_(torch.tensor([1.0, 0.0, 0.0])).flatten(),),
        (torch.rand(900).view(-1, 3).mul_(torch.tensor([1.0, 0.0, 0.0])).flatten(),),
        (torch.ones(9),),
        (-torch.rand(5),),
        (torch.rand(0),),
    ]
