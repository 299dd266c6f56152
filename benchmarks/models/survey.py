"""Small modules as projects write them: seven that break, each for another reason, and five clean.

They are not part of the zoo, whose models are real; the speed benchmark measures on them what a
report costs when there is little to compile. The first of each warms both sides up.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.models.entry import Built, Entry

WIDTH = 16
log = logging.getLogger(__name__)


class MaskedLoss(nn.Module):
    """A boolean mask read."""

    def forward(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        difference = (prediction - target).abs()
        return difference[target > 0].mean()


class NormalizedLoss(nn.Module):
    """`.item()` in arithmetic."""

    def forward(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        valid = target > 0
        return (prediction - target).pow(2).sum() / max(1.0, valid.sum().item())


class EarlyReturn(nn.Module):
    """An `if` on a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.sum(x) == 0:
            return x * 0
        return self.project(x).relu()


class PrintingBlocks(nn.Module):
    """A `print` in a loop over blocks: the whole frame is skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x).relu()
            print("mean", x.mean())
        return x


class WarningNet(nn.Module):
    """A logged warning between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        if x.shape[0] > 2:
            log.warning("a batch of %d", x.shape[0])
        return self.second(x)


class DropPath(nn.Module):
    """Python's own random numbers decide."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if random.random() < 0.5:
            x = x + self.inner(x)
        return x.relu()


class Tagger(nn.Module):
    """An LSTM between an embedding and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, WIDTH)
        self.rnn = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        states, _ = self.rnn(self.embed(tokens))
        return self.head(states)


class Perceptron(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(WIDTH, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, WIDTH))


class ConvBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(self.norm(self.conv(x)).relu(), 2)


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 4, WIDTH // 4).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))


class GraphLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, adjacency: torch.Tensor) -> torch.Tensor:
        degree = adjacency.sum(-1, keepdim=True).clamp(min=1)
        return (adjacency @ self.project(x) / degree).relu()


class CellLoop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros_like(x[:, 0])
        for step in x.unbind(1):
            state = torch.tanh(self.cell(torch.cat([step, state], -1)))
        return state


Inputs = Callable[[], tuple[torch.Tensor, ...]]


def _build(model: type[nn.Module], inputs: Inputs) -> Built:
    return model().eval(), inputs(), {}


def _entries(*models: tuple[type[nn.Module], Inputs]) -> tuple[Entry, ...]:
    return tuple(Entry("survey", row[0].__name__, partial(_build, *row)) for row in models)


def _vectors() -> tuple[torch.Tensor, ...]:
    return (torch.randn(4, WIDTH),)


def _pair() -> tuple[torch.Tensor, ...]:
    return torch.randn(4, WIDTH), torch.randn(4, WIDTH)


def _sequence() -> tuple[torch.Tensor, ...]:
    return (torch.randn(2, 6, WIDTH),)


BREAKING = _entries(
    (MaskedLoss, _pair),
    (NormalizedLoss, _pair),
    (EarlyReturn, _vectors),
    (PrintingBlocks, _vectors),
    (WarningNet, _vectors),
    (DropPath, _vectors),
    (Tagger, lambda: (torch.randint(0, 32, (2, 6)),)),
)
CLEAN = _entries(
    (Perceptron, _vectors),
    (ConvBlock, lambda: (torch.randn(2, 3, 16, 16),)),
    (SelfAttention, _sequence),
    (GraphLayer, lambda: (torch.randn(8, WIDTH), torch.ones(8, 8))),
    (CellLoop, _sequence),
)
ENTRIES = (*BREAKING, *CLEAN)
