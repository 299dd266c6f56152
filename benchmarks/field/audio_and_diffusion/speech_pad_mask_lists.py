"""A toolkit turns lengths into Python lists before it makes a mask from them."""

import torch
from torch import nn


def make_mask(lengths, like=None):
    numbers = lengths.tolist() if isinstance(lengths, torch.Tensor) else lengths
    longest = max(numbers) if like is None else like.shape[1]
    steps = torch.arange(longest)
    return torch.stack([steps >= number for number in numbers])


class MaskedPooling(nn.Module):
    def __init__(self, width: int = 5) -> None:
        super().__init__()
        self.score = nn.Linear(width, 1)

    def forward(self, x, lengths):
        scores = self.score(x).squeeze(-1)
        weights = scores.masked_fill(make_mask(lengths, x), float("-inf")).softmax(-1)
        return (weights.unsqueeze(-1) * x).sum(1)


def build():
    torch.manual_seed(0)
    return MaskedPooling(), (torch.randn(3, 6, 5), torch.tensor([6, 2, 4]))
