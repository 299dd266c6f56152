"""The graphs that Dynamo captures of a program, with what they are called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class _Reached(BaseException):
    """The graph that was waited for is about to run."""


def count(run: Callable[[Callable[..., Any]], object]) -> int:
    """How many times graphs are called while `run(backend)` runs."""
    calls = []

    def backend(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        def call(*inputs: Any) -> Any:
            calls.append(module)
            return module(*inputs)

        return call

    run(backend)
    return len(calls)


def reach(
    run: Callable[[Callable[..., Any]], object], number: int
) -> tuple[torch.fx.GraphModule, tuple[Any, ...]] | None:
    """The graph of call `number` (from 0) while `run(backend)` runs, and its inputs as they are
    just before; the run ends there. None if there is no such call."""
    found: list[tuple[torch.fx.GraphModule, tuple[Any, ...]]] = []
    calls = 0

    def backend(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        def call(*inputs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > number:
                found.append((module, inputs))
                raise _Reached
            return module(*inputs)

        return call

    try:
        run(backend)
    except _Reached:
        return found[0]
    return None
