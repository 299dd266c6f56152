"""Inputs that reach the side of a condition that no input variant takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fullgraph.compiler.events import Position
from fullgraph.compiler.program import parse_program
from fullgraph.rewrites.proof.recorded_runs import Explorer
from tests.rewrites.harness import imported

HEAD = "import torch\nimport torch.nn.functional as F\n\n\n"
X = torch.linspace(-1, 1, 32).reshape(4, 8)
MASK = torch.arange(32).reshape(4, 8) % 3 > 0
LABELS = torch.arange(4)


def explored(source, inputs, condition, target="f"):
    """Explore a program, and return the recorded run."""
    module = imported(HEAD + source)
    text = Path(module.__file__).read_text()
    before = text[: text.index(f"if {condition}:") + 3]
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2])
    test = Position(module.__file__, line, column, line, column + len(condition))
    made = getattr(module, target)
    torch.manual_seed(0)
    subject = parse_program(made().eval() if isinstance(made, type) else made, inputs)
    explorer = Explorer(subject, [test], {}, False, False)
    return explorer.explore()


FUNCTIONS = {
    "a count of elements above a threshold": (
        "c = torch.sigmoid(F.normalize(x, dim=-1)).mean(-1)",
        "(c > 0.56).float().mean() > 0.9",
        (X,),
    ),
    "a number that Python compares": (
        "share = ((x > 0.2) & (x < 0.3)).sum().item() / x.numel()",
        "share > 0.8",
        (X,),
    ),
    "what has no gradient for the program": (
        "with torch.no_grad():\n        far = (x.detach() - 3).abs().amax()",
        "far < 0.5",
        (X,),
    ),
    "the number of rows that a mask selects": (
        "rows = torch.nonzero((x - 0.7).abs().amax(-1) < 0.2)",
        "len(rows) == 4",
        (X,),
    ),
    "an array of NumPy": ("spread = (x - 2).detach().numpy().std()", "spread > 50", (X,)),
    "bools that are combined": (
        "inside = torch.logical_and(x > 2, x.lt(2.5))",
        "inside.all() and not (x.sum(-1) > 30).any()",
        (X,),
    ),
    "a label that the input has not": ("n = (y == -100).sum()", "n == y.numel()", (X, LABELS)),
    "a mask that selects little": ("n = max(m.sum(-1).tolist())", "n == 1", (X, MASK)),
    "equal tensors": ("same = torch.equal(x, y)", "same", (X, X + 1)),
    "rounded numbers": ("n = int((x * 3).round().mean())", "6 <= n <= 7", (X,)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_side_is_reached(name):
    before, condition, inputs = FUNCTIONS[name]
    names = "x" if len(inputs) == 1 else "x, m" if inputs[1] is MASK else "x, y"
    source = (
        f"def f({names}):\n    {before}\n    if {condition}:\n        x = x + 1\n    return x\n"
    )
    run = explored(source, inputs, condition)
    assert run.values_of(0) == {True, False}, (run.values, run.found)


GATED = """class Gated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.gate = torch.nn.LayerNorm(8), torch.nn.Linear(8, 1)

    def forward(self, x):
        share = torch.sigmoid(self.gate(self.norm(x))).mean()
        if share > 0.97:
            x = x * 2
        return x
"""
LAYERS = """class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
            if x.min() > 0.9:
                break
        return x
"""


def test_parameters_move_where_no_input_can():
    run = explored(GATED, (X,), "share > 0.97", "Gated")
    assert run.values_of(0) == {True, False}, (run.values, run.found)


def test_a_loop_ends_before_its_last_round():
    run = explored(LAYERS, (X,), "x.min() > 0.9", "Layers")
    assert run.values_of(0) == {True, False}
    assert any(len(values) < 4 and values[-1] for (values,) in run.values.values()), run.values


def test_no_search_for_what_no_tensor_decides(monkeypatch):
    monkeypatch.setattr("fullgraph.rewrites.proof.reach.discrete_variants", None)
    source = "def f(x):\n    if len(x) > 9:\n        x = x + 1\n    return x * int(x.max() > 0)\n"
    run = explored(source, (X,), "len(x) > 9")
    assert run.values_of(0) == {False} and [*run.found.values()] == [None]
