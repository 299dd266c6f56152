"""A vocoder unwraps the phase of its spectrum by NumPy in the middle of the model."""

import numpy as np
import torch
from torch import nn


class PhaseVocoder(nn.Module):
    def __init__(self, bins: int = 9) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(16, bins), nn.Linear(bins, 3)

    def forward(self, x):
        phase = self.before(x).tanh() * np.pi
        smooth = np.unwrap(phase.numpy(), axis=0)
        change = torch.from_numpy(smooth).diff(dim=0)
        return self.after(change.float())


def build():
    torch.manual_seed(0)
    return PhaseVocoder().requires_grad_(False), (torch.randn(6, 16),)
