"""A network whose parts lie in several modules."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import nn

from tests.minifier.extracting import pack
from tests.minifier.extracting.pack.scaling import MEAN
from tests.minifier.extracting.pack.scaling import clipped as limited

if TYPE_CHECKING:
    from collections.abc import Sequence

SCALE = 0.5


@dataclass
class Config:
    width: int = 4
    depth: int = 2


def logged(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


@logged
def shifted(x: torch.Tensor) -> torch.Tensor:
    return x + MEAN.sum() * SCALE


class Base(nn.Module):
    def ending(self, x: torch.Tensor) -> torch.Tensor:
        return limited(x) * pack.SCALE + pack.scaling.LIMIT


class Layer(Base):
    def __init__(self, width: int, *, act: str = "relu") -> None:
        super().__init__()
        self.width = width
        self.act = act
        self.lin = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.ending(getattr(F, self.act)(self.lin(x)) / math.sqrt(self.width))


class Network(nn.Module):
    def __init__(self, config: Config, names: Sequence[str] = ()) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.Sequential(*(Layer(config.width) for _ in range(config.depth)))
        self.register_buffer("offset", torch.arange(config.width).float())
        self.drop = nn.Dropout(0.25)

    def forward(self, x: torch.Tensor, times: int = 1) -> torch.Tensor:
        return shifted(self.drop(self.layers(x) + self.offset)) * times


class Odd(nn.Module):
    """Keeps nothing of what its constructor was given."""

    def __init__(self, size: int, flag: bool) -> None:
        super().__init__()
        self.inner = nn.Linear(size, 2 if flag else 3, bias=False)
        self.weight = nn.Parameter(torch.zeros(size))
        self.register_buffer("mask", torch.ones(size, dtype=torch.bool), persistent=False)
        self.sizes = [size, flag]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x * self.weight * self.mask)


class Counter:
    """An object with state."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.seen = 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return x + self.start


def closing(amount: float, count: int):
    def inner(x: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        return x * amount + count

    return inner


COUNTER = Counter(3)
HALVED, DOUBLED = (lambda x: x / 2), (lambda x: x * 2)


def counted(x: torch.Tensor) -> torch.Tensor:
    return COUNTER(x) + SCALE


def factorial(n: int) -> int:
    return 1 if n < 2 else n * factorial(n - 1)


@torch.library.custom_op("extracting::tripled", mutates_args=())
def tripled(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@tripled.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def registered(x: torch.Tensor) -> torch.Tensor:
    return tripled(x) + 1


def build_network():
    return Network(Config(depth=1)).eval(), (torch.ones(2, 4),)
