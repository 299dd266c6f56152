"""A speech encoder makes its padding mask from the longest length of the batch."""

import torch
from torch import nn


def padding_mask(lengths):
    steps = torch.arange(lengths.amax().item())
    return lengths[:, None] <= steps[None]


class ConvolutionEncoder(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, width, 3, padding=1, groups=width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, lengths):
        mask = padding_mask(lengths)
        hidden = self.conv(x.masked_fill(mask.unsqueeze(-1), 0.0).transpose(1, 2)).transpose(1, 2)
        return self.norm(hidden), lengths


def build():
    torch.manual_seed(0)
    return ConvolutionEncoder(), (torch.randn(3, 7, 8), torch.tensor([7, 4, 5]))
