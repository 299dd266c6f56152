"""FG308: a timestep that is not in the schedule is an IndexError that names the index 0."""

import torch
from torch import nn


class Scheduler(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("timesteps", torch.tensor([900, 700, 700, 300, 100]))
        self.register_buffer("sigmas", torch.linspace(1.0, 0.1, 5))

    def index_for_timestep(self, timestep):
        indices = (self.timesteps == timestep).nonzero()
        pos = 1 if len(indices) > 1 else 0
        return indices[pos].item()

    def forward(self, sample, timestep):
        sigma = self.sigmas[self.index_for_timestep(timestep)]
        return sample * sigma


def build():
    torch.manual_seed(0)
    return Scheduler(), (torch.randn(2, 4), torch.tensor(700))


def witnesses():
    """The timestep occurs never, once, as a float, as NaN, as five steps, and as none."""
    sample = torch.ones(2, 4)
    return [
        (sample, torch.tensor(5)),
        (sample, torch.tensor(900)),
        (sample, torch.tensor(300.0)),
        (sample, torch.tensor(float("nan"))),
        (sample, torch.tensor([900, 0, 0, 300, 0])),
        (sample, torch.tensor([1, 700, 700, 700, 1])),
        (sample, torch.zeros(5, 1)),
    ]
