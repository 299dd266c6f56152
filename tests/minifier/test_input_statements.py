"""Inputs as statements: one a name, memory shared as it was."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fullgraph.minifier.emit.input_statements import assign_inputs
from fullgraph.minifier.emit.literals import is_same_tensor
from fullgraph.minifier.emit.program_text import Unwritable
from tests.text import block


def again(**values: Any) -> dict[str, Any]:
    names: dict[str, Any] = {"torch": torch}
    exec(assign_inputs(values), names)
    return names


def test_plain_values() -> None:
    text = assign_inputs({"n": 3, "p": 0.5, "mode": "mean", "far": float("-inf"), "none": None})
    assert text.splitlines() == [
        *("n = 3", "p = 0.5", "mode = 'mean'", 'far = float("-inf")', "none = None"),
    ]


def test_one_special_element_gets_a_line() -> None:
    x = torch.linspace(-2, 2, 32)
    x[3] = torch.nan
    assert assign_inputs({"x": x}) == block("""
        x = torch.linspace(-2, 2, 32)
        x[3] = torch.nan""")


def test_one_tensor_twice_is_one_tensor() -> None:
    x = torch.zeros(3)
    found = again(x=x, y=x)
    assert found["x"] is found["y"]


@pytest.mark.parametrize(
    ("view", "text"),
    [
        (lambda x: x.t(), "y = x.t()"),
        (lambda x: x[1], "y = x[1]"),
        (lambda x: x[1:], "y = x[1:]"),
        (lambda x: x.view(12), "y = x.view(12)"),
        (lambda x: x[:, 2], "y = x[:, 2]"),
        (lambda x: x.detach(), "y = x.detach()"),
    ],
)
def test_a_view_stays_a_view(view: Any, text: str) -> None:
    x = torch.arange(12.0).reshape(3, 4).requires_grad_()
    found = again(x=x, y=view(x))
    assert assign_inputs({"x": x, "y": view(x)}).splitlines()[1] == text
    assert found["y"].untyped_storage().data_ptr() == found["x"].untyped_storage().data_ptr()
    assert is_same_tensor(found["y"], view(x))


def test_two_views_of_memory_that_is_no_input() -> None:
    memory = torch.arange(8.0)
    found = again(x=memory[:5], y=memory[3:])
    found["x"][4] = -1
    assert found["y"][1] == -1 and found["y"].tolist() == [3, -1, 5, 6, 7]


def test_parts_that_do_not_overlap_stay_apart() -> None:
    memory = torch.zeros(32)
    assert "memory" not in assign_inputs({"x": memory[:16], "y": memory[16:]})


def test_a_generator_that_has_drawn_is_refused() -> None:
    generator = torch.Generator().manual_seed(3)
    assert assign_inputs({"g": generator}) == "g = torch.Generator().manual_seed(3)"
    torch.rand(3, generator=generator)
    with pytest.raises(Unwritable, match="generator"):
        assign_inputs({"g": generator})
