"""A sliding window cuts the mask at an offset that is the last cache position."""

import torch
from torch import nn


class WindowedDecoder(nn.Module):
    def __init__(self, window: int = 4, width: int = 8) -> None:
        super().__init__()
        self.window, self.value = window, nn.Linear(width, width)

    def forward(self, states, keys, mask, positions):
        first = (positions.amax() + 1 - self.window).clamp(min=0)
        mask = mask[..., first : first + self.window]
        keys = keys[:, : self.window]
        scores = states @ keys.transpose(1, 2) + mask
        return scores.softmax(-1) @ self.value(keys)


def build():
    torch.manual_seed(0)
    mask = torch.zeros(2, 1, 10)
    return WindowedDecoder(), (
        torch.randn(2, 1, 8),
        torch.randn(2, 10, 8),
        mask,
        torch.tensor([6]),
    )
