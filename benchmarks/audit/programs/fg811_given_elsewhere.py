"""FG811: some calls in the block do not ask the context, or have a device; others have None."""

import torch
from torch import nn


class Grid(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.size = size

    def forward(self, x, device="cpu"):
        with torch.device(device):
            like = torch.zeros_like(x)
            new = x.new_ones(self.size)
            steps = torch.arange(self.size)
            given = torch.linspace(0, 1, self.size, device=x.device)
            none = torch.full((2,), 7, device=None)
            same = torch.as_tensor(x)
        kinds = [str(each.device) for each in (like, new, steps, given, none, same)]
        return like + new * given, kinds


def build():
    torch.manual_seed(0)
    return Grid(), (torch.randn(2, 4), "cpu")


def witnesses():
    """The device has no memory, so that what the context decides is seen."""
    x = torch.ones(2, 4)
    return [(x, "meta"), (x, torch.device("meta")), (x, "cpu:0"), (x.double(), "meta")]
