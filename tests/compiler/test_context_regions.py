"""Calls in a graph that switch something, and what belongs together."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from fullgraph.compiler.private import find_redundant_switches, find_region, is_mode_switch
from tests.minifier.capture import capture_graphs


def _calls(function: Any) -> tuple[Node, ...]:
    return capture_graphs(function, torch.ones(2, 2, requires_grad=True)).calls


def test_other_calls_are_no_switches() -> None:
    assert not any(is_mode_switch(node) for node in _calls(lambda x: x.sin().add_(1).exp_()))


def test_autocast_is_left_by_its_own_exit() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu"):
            with torch.autocast("cpu", enabled=False):
                y = x.sin()
            return y @ y

    calls = _calls(function)
    outer, inner, _, inner_exit, _, outer_exit = calls
    assert find_region(outer, calls) == [outer, outer_exit]
    assert find_region(inner, calls) == [inner, inner_exit]
    assert find_region(outer_exit, calls) == []


def test_gradients_are_switched_on_again() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x.sin()
        return x * y

    calls = _calls(function)
    off, _, on, _ = calls
    assert find_region(off, calls) == [off, on] and find_region(on, calls) == []
    assert find_redundant_switches([off, on]) == [off, on]
    assert find_redundant_switches(calls) == []


def test_nested_transforms() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.func.vmap(torch.func.vmap(torch.sin))(x)

    calls = [node for node in _calls(function) if is_mode_switch(node)]
    outer, inner, inner_exit, outer_exit = calls
    assert find_region(outer, calls) == [outer, outer_exit]
    assert find_region(inner, calls) == [inner, inner_exit]
