"""A decoder ages its memory in place and reads its newest rows through a window on it."""

import torch
from torch import nn


class Ageing(nn.Module):
    def __init__(self, width, rate=0.9):
        super().__init__()
        self.gate, self.rate = nn.Linear(width, width), rate

    def forward(self, memory):
        return memory.mul_(self.rate).add_(1.0)


class Reader(nn.Module):
    def __init__(self, width, heads=2):
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, window):
        scores = self.query(x) @ self.key(window).transpose(-1, -2)
        return scores.softmax(-1) @ window


class Decoder(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.embed, self.ageing, self.reader = nn.Linear(3, width), Ageing(width), Reader(width)
        self.head = nn.Linear(width, 4)

    def forward(self, x, memory, window):
        x = torch.tanh(self.embed(x))
        self.ageing(memory)
        read = self.reader(x, window)
        newest = window[0]
        return self.head(x + read).log_softmax(-1), newest


def build():
    torch.manual_seed(0)
    memory = torch.arange(24.0).reshape(4, 6) / 10
    return Decoder().eval().requires_grad_(False), (torch.randn(2, 3), memory, memory[1:])
