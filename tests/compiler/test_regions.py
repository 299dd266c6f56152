"""Calls in a graph that switch something, and what belongs together."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from fullgraph.compiler.private.context_regions import idle, is_switch, region
from tests.minifier.capture import captured


def _calls(function: Any) -> tuple[Node, ...]:
    return captured(function, torch.ones(2, 2, requires_grad=True)).calls


def test_other_calls_are_no_switches() -> None:
    assert not any(is_switch(node) for node in _calls(lambda x: x.sin().add_(1).exp_()))


def test_autocast_is_left_by_its_own_exit() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu"):
            with torch.autocast("cpu", enabled=False):
                y = x.sin()
            return y @ y

    calls = _calls(function)
    outer, inner, _, inner_exit, _, outer_exit = calls
    assert region(outer, calls) == [outer, outer_exit]
    assert region(inner, calls) == [inner, inner_exit]
    assert region(outer_exit, calls) == []


def test_gradients_are_switched_on_again() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x.sin()
        return x * y

    calls = _calls(function)
    off, _, on, _ = calls
    assert region(off, calls) == [off, on] and region(on, calls) == []
    assert idle([off, on]) == [off, on]
    assert idle(calls) == []


def test_nested_transforms() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.func.vmap(torch.func.vmap(torch.sin))(x)

    calls = [node for node in _calls(function) if is_switch(node)]
    outer, inner, inner_exit, outer_exit = calls
    assert region(outer, calls) == [outer, outer_exit]
    assert region(inner, calls) == [inner, inner_exit]
