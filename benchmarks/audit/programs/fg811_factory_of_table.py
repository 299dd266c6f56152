"""FG811: the function that makes the tensor comes from a table, and one is a local helper."""

import torch
from torch import nn

FILLS = {"zeros": torch.zeros, "ones": torch.ones}


class Prior(nn.Module):
    def __init__(self, size=3):
        super().__init__()
        self.size = size

    def forward(self, x, kind="zeros", device="cpu"):
        def arange(count):
            return torch.arange(1, count + 1)

        with torch.device(device):
            mean = FILLS[kind](self.size)
            order = arange(self.size)
            scale = torch.eye(self.size)
        places = [str(each.device) for each in (mean, order, scale)]
        shift = mean + order if mean.device == x.device else 0.0
        return x + shift, places


def build():
    torch.manual_seed(0)
    return Prior(), (torch.randn(2, 3),)


def witnesses():
    """The other function, a kind that is missing, and a device without memory."""
    x = torch.ones(2, 3)
    return [(x, "ones", "cpu"), (x, "eye", "cpu"), (x, "ones", "meta"), (x, "zeros", "meta")]
