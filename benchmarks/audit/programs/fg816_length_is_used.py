"""FG816: the length that the condition reads also scales the queries of long inputs."""

import torch
from torch import nn


class LogScaled(nn.Module):
    def __init__(self, width=8, trained_length=4):
        super().__init__()
        self.width = width
        self.trained_length = trained_length
        self.query = nn.Linear(width, width)
        self._set_bias_cache(16)

    def _set_bias_cache(self, length):
        self.max_length = length
        self.bias_cached = -0.1 * torch.arange(int(length)).float()

    def forward(self, x, position_ids, scaled=False):
        length = position_ids.max() + 1
        if length > self.max_length:
            self._set_bias_cache(length)
        q = self.query(x)
        if scaled:
            q = q * (length / self.trained_length).log().clamp(min=1.0)
        return q @ x.transpose(-1, -2) + self.bias_cached[position_ids]


def build():
    torch.manual_seed(0)
    return LogScaled().eval(), (torch.randn(2, 5, 8), torch.arange(5))


def witnesses():
    """Scaled, for positions within the table and beyond it."""
    torch.manual_seed(1)
    x = torch.randn(2, 5, 8)
    ids = torch.arange(5)
    return [(x, ids + 11, True), (x, ids + 60, True), (x, ids, True), (x, ids, False)]
