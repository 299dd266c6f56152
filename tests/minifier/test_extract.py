"""Texts of live programs, run where nothing of the user's can be imported."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.isolation import run_isolated
from fullgraph.minifier.emit.program_text import Unwritable
from fullgraph.minifier.extract.constructor_arguments import structure_of
from fullgraph.minifier.extract.extract import from_builder, from_file, standalone
from fullgraph.minifier.extract.stubs import Recording
from fullgraph.minifier.reduce.source.entry_point import entry_call, load_module
from tests.minifier.extracting import network
from tests.text import block

pytestmark = pytest.mark.compiles

X = torch.linspace(-1, 1, 8).view(2, 4)


def same(text: str, target: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """The text's program gives what the live one gives, and nothing of this package's."""
    assert "tests" not in text
    expected = target(*args, **kwargs)

    def job(say: Callable[[object], None]) -> bool:
        model, given, named = entry_call(load_module(text))
        return torch.equal(model(*given, **named), expected)

    outcome = run_isolated(job)
    assert outcome.value, f"{outcome.error and outcome.error.traceback}\n{text}"


def test_a_network_over_several_modules() -> None:
    model = network.Network(network.Config(depth=2)).eval()
    text = standalone(model, (X,), exact=True)
    same(text, model, X)
    for name in ("class Network", "class Layer", "class Base", "def clipped", "import math"):
        assert name in text
    for name in ("unused", "Odd", "Counter", "build_network", "TYPE_CHECKING"):
        assert name not in text


def test_it_runs_alone(tmp_path: Path) -> None:
    model = network.Network(network.Config()).eval()
    text = standalone(model, (torch.randn(3, 4),))
    script = tmp_path / "alone.py"
    script.write_text(f"{text}\nmodel, inputs = build()\nprint(tuple(model(*inputs).shape))\n")
    done = subprocess.run(
        [sys.executable, "-I", script], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.stdout == "(3, 4)\n", done.stderr


def test_constructors_are_called_where_attributes_tell_their_arguments() -> None:
    text = standalone(network.Layer(4, act="gelu"), (X,))
    assert "Layer(4, act='gelu')" in text
    assert "__new__" not in text


def test_a_module_that_keeps_nothing_is_made_by_hand() -> None:
    model = network.Odd(4, True)
    text = standalone(model, (X,), exact=True)
    same(text, model, X)
    assert "Odd.__new__(Odd)" in text
    assert "nn.Linear(4, 2, bias=False)" in text


def test_parameters_in_a_list_have_numbers_for_names() -> None:
    class Scaled(nn.Module):
        def __init__(self, low: float, more: float) -> None:
            super().__init__()
            self.scales = nn.ParameterList([torch.full((4,), low), torch.full((4,), low + more)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scales[0] + self.scales[1]

    model = Scaled(2.0, 1.0)
    text = standalone(model, (X,), exact=True)
    assert "setattr(parameter_list, '1', nn.Parameter(" in text
    same(text, model, X)


def test_a_function_with_a_decorator_of_its_own() -> None:
    same(standalone(network.shifted, (X,), exact=True), network.shifted, X)


def test_a_closure() -> None:
    inner = network.closing(2.5, 7)
    text = standalone(inner, (X,), exact=True)
    same(text, network.closing(2.5, 7), X)
    assert "amount = 2.5" in text


def test_lambdas_of_one_line() -> None:
    for function in (network.HALVED, network.DOUBLED):
        same(standalone(function, (X,), exact=True), function, X)


def test_an_object_with_state() -> None:
    same(standalone(network.counted, (X,), exact=True), network.counted, X)


def test_a_function_that_calls_itself() -> None:
    assert standalone(network.factorial, (3,)).count("factorial") == 3


def test_a_custom_operator_with_its_fake() -> None:
    text = standalone(network.registered, (X,))
    assert "custom_op(" in text
    assert "register_fake" in text


def test_a_bound_method_and_a_partial() -> None:
    layer = network.Layer(4).eval()
    same(standalone(layer.ending, (X,), exact=True), layer.ending, X)
    halved = functools.partial(torch.mul, 0.5)
    same(standalone(halved, (X,), exact=True), halved, X)


def test_functions_of_torch() -> None:
    for function in (torch.sin, F.gelu, torch.nn.functional.softmax):
        args = (X, -1) if function is F.softmax else (X,)
        same(standalone(function, args, exact=True), function, *args)


def test_keyword_arguments() -> None:
    model = network.Network(network.Config()).eval()
    same(standalone(model, (X,), {"times": 2}, exact=True), model, X, times=2)

    def only(*, x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n

    same(standalone(only, (), {"x": X, "n": 3}, exact=True), only, x=X, n=3)


def test_two_globals_of_one_name() -> None:
    text = standalone(network.Network(network.Config()).eval(), (X,))
    assert "SCALE = 3.0" in text
    assert "SCALE_2 = 0.5" in text or "SCALE = 0.5" in text


def test_frozen_parts_and_modes_of_their_own() -> None:
    model = network.Network(network.Config()).eval()
    model.drop.train()
    model.layers[0].lin.weight.requires_grad_(False)
    text = standalone(model, (X,))

    def job(say: Callable[[object], None]) -> tuple[bool, bool, bool]:
        made, _, _ = entry_call(load_module(text))
        frozen = made.layers[0].lin.weight.requires_grad
        return made.training, made.drop.training, frozen

    assert run_isolated(job).value == (False, True, False)


def test_torch_layers_and_containers() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, groups=1, bias=False),
        nn.BatchNorm2d(8, eps=1e-3),
        nn.ModuleDict({"a": nn.GELU(approximate="tanh")})["a"],
        nn.Flatten(),
        *[nn.Linear(4, 4) for _ in range(3)],
        nn.MultiheadAttention(8, 2, batch_first=True),
        nn.LSTM(4, 5, num_layers=2, bidirectional=True),
        nn.TransformerEncoderLayer(8, 2, 16),
    ).to(torch.float64)
    text = standalone(model, ())

    def job(say: Callable[[object], None]) -> str:
        made, _, _ = entry_call(load_module(text))
        return f"{made} {[p.dtype for p in made.parameters()]}"

    assert run_isolated(job).value == f"{model} {[p.dtype for p in model.parameters()]}"
    assert "nn.Conv2d(3, 8, 3, padding=1, bias=False)" in text
    assert "nn.MultiheadAttention(8, 2, batch_first=True)" in text
    assert "nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)" in text


def test_a_module_in_two_places() -> None:
    shared = nn.Linear(4, 4)
    model = nn.Sequential(shared, nn.ReLU(), shared, nn.Sequential(shared))
    text = standalone(model, (X,), exact=True)
    same(text, model, X)
    assert text.count("nn.Linear(4, 4)") == 1


def test_inputs_of_all_kinds() -> None:
    def program(tensor: Any, array: Any, pair: Any, named: Any) -> torch.Tensor:
        return tensor + torch.from_numpy(array).sum() + pair[0] + named["a"]

    args = (X, np.arange(3.0), (1, float("inf")), {"a": 2})
    same(standalone(program, args, exact=True), program, *args)


def test_large_inputs_are_drawn() -> None:
    text = standalone(torch.sin, (torch.randn(64, 64, requires_grad=True),))
    assert "(torch.randn(64, 64, requires_grad=True),)" in text
    assert "torch.manual_seed(0)" in text


def test_strides_of_drawn_inputs_stay() -> None:
    inputs = (
        torch.randn(8, 8, 8, 8).to(memory_format=torch.channels_last),
        torch.randn(40, 30).t(),
        torch.randint(-5, 9, (40, 30)).t(),
        torch.rand(2, 8, 8, 8).to(memory_format=torch.channels_last) > 0.5,
        torch.randn(40, 30).t().requires_grad_(),
    )
    text = standalone(max, inputs)

    def job(say: Callable[[object], None]) -> list[Any]:
        return [
            (t.shape, t.stride(), t.dtype, t.requires_grad)
            for t in entry_call(load_module(text))[1]
        ]

    assert run_isolated(job).value == [
        (t.shape, t.stride(), t.dtype, t.requires_grad) for t in inputs
    ]


def test_exact_values_of_large_inputs() -> None:
    x = torch.randn(30, 30)
    same(standalone(torch.sin, (x,), exact=True), torch.sin, x)


def test_what_no_source_gives_is_refused() -> None:
    with pytest.raises(Unwritable):
        standalone(torch.sin, (iter([1]),))


def test_a_builder_with_what_it_reaches() -> None:
    text = from_builder(network.build_network)
    assert "tests" not in text
    assert (
        block("""
            def build():
                return build_network()[:2]""")
        in text
    )

    def job(say: Callable[[object], None]) -> str:
        model, args, _ = entry_call(load_module(text))
        return str(model(*args).shape)

    assert run_isolated(job).value == "torch.Size([2, 4])"


FILE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x

def other(x):
    return x + 1

inputs = (torch.ones(2),)

def build_third():
    return other, (torch.zeros(3),), "more"
"""


@pytest.mark.parametrize(
    ("name", "expected"), [("Model", [1, 1]), ("other", [2, 2]), ("build_third", [1, 1, 1])]
)
def test_a_file_with_a_name(tmp_path: Path, name: str, expected: list[int]) -> None:
    path = tmp_path / "file.py"
    path.write_text(FILE)
    text = from_file(str(path), name)

    def job(say: Callable[[object], None]) -> list[float]:
        model, args, _ = entry_call(load_module(text))
        return model(*args).tolist()

    assert run_isolated(job).value == expected


def test_a_name_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.py"
    path.write_text(FILE)
    with pytest.raises(FullgraphError, match="no name 'missing'"):
        from_file(str(path), "missing")


def test_structure_tells_modules_apart() -> None:
    assert structure_of(nn.Linear(2, 3)) == structure_of(nn.Linear(2, 3))
    assert structure_of(nn.Linear(2, 3)) != structure_of(nn.Linear(2, 3, bias=False))
    assert structure_of(nn.Dropout(0.1)) != structure_of(nn.Dropout(0.2))


def test_what_stands_for_a_module_comes_with_its_source() -> None:
    model = nn.Sequential(nn.Linear(2, 2), Recording([torch.ones(2)]))
    text = standalone(model, (torch.ones(2),))
    assert "class Recording" in text and "fullgraph" not in text
