"""Attention over a board: each square sees those of its row, written into a mask by index."""

import torch
from torch import nn
from torch.nn import functional as F


class BoardAttention(nn.Module):
    def __init__(self, width, squares):
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.squares = squares

    def mask(self):
        mask = torch.full((self.squares, self.squares), -10000.0)
        rows, columns = torch.arange(self.squares), torch.arange(self.squares)
        mask[rows.unsqueeze(0), columns.unsqueeze(1)] = 0
        return mask

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(-1, -2) / x.shape[-1] ** 0.5
        return self.out((scores + self.mask()).softmax(-1) @ self.value(x))


class BoardNet(nn.Module):
    def __init__(self, squares=8, width=12):
        super().__init__()
        self.embed = nn.Linear(5, width)
        self.attention, self.norm = BoardAttention(width, squares), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.value = nn.Linear(width, 1)

    def forward(self, board):
        x = torch.tanh(self.embed(board))
        x = self.norm(x + self.attention(x))
        x = x + self.down(F.gelu(self.up(x)))
        return torch.tanh(self.value(x.mean(0)))


def build():
    torch.manual_seed(0)
    return BoardNet().eval().requires_grad_(False), (torch.randn(8, 5),)
