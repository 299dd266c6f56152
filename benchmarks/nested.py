"""Functions that are compiled inside functions, as training scripts do it: for `check_truth`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.models.entry import Built, Entry


def decorated() -> Callable[..., Any]:
    @torch.compile
    def step(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = x * 2
        return x + 1

    return step


def decorated_with_options() -> Callable[..., Any]:
    @torch.compile(dynamic=True)
    def step(x: torch.Tensor) -> torch.Tensor:
        print("step")
        return x / x.abs().max().item()

    return step


def partial_of_compile() -> Callable[..., Any]:
    @functools.partial(torch.compile, dynamic=False)
    def masked(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0].sum()

    return masked


def partial_with_a_name() -> Callable[..., Any]:
    fast = functools.partial(torch.compile, dynamic=False)

    def rows(x: torch.Tensor) -> torch.Tensor:
        return x * x.nonzero().shape[0]

    return fast(rows)


def compiled_by_call() -> Callable[..., Any]:
    def limit(x: torch.Tensor) -> torch.Tensor:
        while x.norm() > 1:
            x = x / 2
        return x

    return torch.compile(limit)


def compiled_by_other_name() -> Callable[..., Any]:
    compiled = torch.compile

    def loss(x: torch.Tensor) -> torch.Tensor:
        total = float(x.square().mean())
        return x - total

    return compiled(loss)


def with_helper() -> Callable[..., Any]:
    def scale(x: torch.Tensor) -> float:
        return float(x.std().item())

    def step(x: torch.Tensor) -> torch.Tensor:
        return x / scale(x)

    return torch.compile(step)


def two_levels() -> Callable[..., Any]:
    def trainer() -> Callable[..., Any]:
        @torch.compile
        def update(x: torch.Tensor) -> torch.Tensor:
            values = x.flatten().tolist()
            return x + len(values)

        return update

    return trainer()


def class_inside() -> nn.Module:
    class Gate(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if torch.any(x < 0):
                return x.relu()
            return x

    return Gate()


def method_of_object() -> Callable[..., Any]:
    class Trainer:
        def step(self, x: torch.Tensor) -> torch.Tensor:
            kept = x[x.abs() < 1]
            return kept.sum()

    return torch.compile(Trainer().step)


def under_a_condition(fast: bool = True) -> Callable[..., Any]:
    def run(x: torch.Tensor) -> torch.Tensor:
        assert not torch.isnan(x).any(), f"{x.isnan().sum().item()} values"
        return x + 1

    if fast:
        run = torch.compile(run)
    return run


def without_a_break() -> Callable[..., Any]:
    @torch.compile
    def clean(x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0]
        if rows > 2:
            x = x.sum(0)
        return x

    return clean


def _built(make: Callable[[], Callable[..., Any]]) -> Built:
    return make(), (torch.randn(4, 3),), {}


ENTRIES = {
    make.__name__: Entry("nested", make.__name__, partial(_built, make))
    for make in (
        decorated,
        decorated_with_options,
        partial_of_compile,
        partial_with_a_name,
        compiled_by_call,
        compiled_by_other_name,
        with_helper,
        two_levels,
        class_inside,
        method_of_object,
        under_a_condition,
        without_a_break,
    )
}
