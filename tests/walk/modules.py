"""Modules and functions that a new user has, each with its inputs."""

from __future__ import annotations

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.lin(x)
        print(x.shape)
        return x * 2


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin(x).relu()


class OwnCall(nn.Module):
    """Overrides `__call__`, with another signature than forward's."""

    def __call__(self, x, scale):  # type: ignore[no-untyped-def]
        print("called")
        return self.forward(x) * scale

    def forward(self, x):  # type: ignore[no-untyped-def]
        return x + 1


class NoInit(nn.Module):
    """Never calls `super().__init__()`."""

    def __init__(self) -> None:
        self.scale = 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print("scaling")
        return x * self.scale


class Exits(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        import sys

        sys.exit(3)


class ExitsAtOnce(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        import os

        os._exit(4)


class Interrupts(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise KeyboardInterrupt


class Never(nn.Module):
    """Prints, and never returns."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        print("begun")
        while True:
            x = wait(x)


@torch.compiler.disable
def wait(x: torch.Tensor) -> torch.Tensor:
    import time

    time.sleep(0.1)
    return x


class Slow(nn.Module):
    """Takes a second for each call."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        import time

        time.sleep(1)
        if x.sum() > 0:
            x = x + 1
        print(x.shape)
        return x.sum().item() + x


class Slower(nn.Module):
    """Breaks at once, then is slow to search."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print(x.shape)
        for _ in range(3):
            x = wait(x.sin())
            wait(x).item if x.sum() > 0 else x.cos()
            print(pause(x))
        return x


@torch.compiler.disable
def pause(x: torch.Tensor) -> torch.Tensor:
    import time

    time.sleep(0.7)
    return x


class Raises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no such thing")


class Megabyte(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number in range(20_000):
            print("line", number, "of much text that nobody reads at all, ever")
        return x + 1


class OutOfMemory(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.empty(1 << 50)


class NeedsSize(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()


class NeedsInts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 4)

    def forward(self, ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return self.embed(ids) * weight


class NoForward(nn.Module):
    pass


class BadInit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.size = {}["config"]


def make_model() -> nn.Module:
    return Net()


def make_pair() -> tuple[nn.Module, torch.Tensor]:
    return Net(), torch.ones(2, 4)


def make_nothing() -> None:
    Net()


def make_error() -> nn.Module:
    raise OSError("no weights here")


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


halve = lambda x: x / 2  # noqa: E731

on_meta = Plain().to("meta")
on_meta_inputs = torch.ones(2, 4)
all_meta = Plain().to("meta")
all_meta_inputs = torch.ones(2, 4, device="meta")

namespace: dict[str, object] = {"torch": torch}
exec("def made(x):\n    print(x.shape)\n    return x + 1\n", namespace)
made = namespace["made"]

number = 3
OwnCall_inputs = (torch.ones(2), 3.0)
misfit = Plain()
misfit_inputs = (torch.ones(2, 4), torch.ones(2, 4))
wrong_shape = Plain()
wrong_shape_inputs = torch.ones(2, 5)
a_list = Plain()
a_list_inputs = [torch.ones(2, 4)]
inputs = torch.ones(2, 4)
