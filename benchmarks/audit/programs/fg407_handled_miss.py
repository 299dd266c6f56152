"""FG407: a search that finds no step, or two of them, is an error that the caller handles."""

import torch
from torch import nn


class StepTable(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("timesteps", torch.tensor([900, 700, 500, 500, 100]))
        self.register_buffer("sigmas", torch.linspace(1.0, 0.2, 5))
        self.misses = 0

    def index(self, t):
        try:
            step = (self.timesteps == t).nonzero().item()
        except RuntimeError:
            self.misses += 1
            step = len(self.timesteps) - 1
        return step

    def forward(self, sample, t):
        sigma = self.sigmas[self.index(t)]
        following = self.sigmas[(self.timesteps == t - 200).nonzero()[0, 0]]
        return sample * sigma + following


def build():
    torch.manual_seed(0)
    return StepTable(), (torch.randn(2, 3), torch.tensor(900))


def witnesses():
    """A step that is missing, one that occurs twice, one without the following, floats, NaN, and
    all.
    """
    sample = torch.ones(2, 3)
    return [
        (sample, torch.tensor(1100)),
        (sample, torch.tensor(700)),
        (sample, torch.tensor(500)),
        (sample, torch.tensor(300)),
        (sample, torch.tensor(900.0)),
        (sample, torch.tensor(float("nan"))),
        (sample, torch.tensor([900, 700, 500, 500, 100])),
        (sample, torch.tensor([1, 2])),
    ]
