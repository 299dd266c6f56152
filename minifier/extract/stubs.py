"""Modules that stand in for others; a script that needs one contains its source."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn


class Passing(nn.Module):
    """Stub of a module that returns one of its arguments."""

    def __init__(self, argument: int | str) -> None:
        super().__init__()
        self.argument = argument

    def forward(self, *args: object, **kwargs: object) -> object:
        if isinstance(self.argument, int):
            return args[self.argument]
        return kwargs[self.argument]


class Recording(nn.Module):
    """Stub of a module that returns recorded outputs, one for each call, and then starts over."""

    def __init__(self, values: Sequence[object]) -> None:
        super().__init__()
        self.values = list(values)
        self.calls = 0

    def forward(self, *args: object, **kwargs: object) -> object:
        if len(self.values) == 1:  # no counter, which would be guarded on
            return self.values[0]
        value = self.values[self.calls % len(self.values)]
        self.calls += 1
        return value
