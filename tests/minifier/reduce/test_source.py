"""Whole texts made small."""

import ast
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

from fullgraph.compiler.isolation import run_isolated
from fullgraph.minifier.oracle.candidate import Verdict
from fullgraph.minifier.reduce.source.entry_point import entry_call, load_module
from fullgraph.minifier.reduce.source.passes import reduce_source
from tests.minifier.fake_oracle import judged
from tests.minifier.reduce.text_problems import breaks, lines, reduced
from tests.text import block

pytestmark = pytest.mark.compiles

READER = Path(__file__).with_name("reader.py").read_text()


def clean(text: str) -> str:
    return textwrap.dedent(text).strip("\n") + "\n"


def runs(text: str, fails) -> bool:
    """Whether what a text calls has a property."""

    def job(say) -> bool:
        return bool(fails(*entry_call(load_module(text))))

    return bool(run_isolated(job, seconds=60).value)


@pytest.mark.slow
def test_a_graph_break_in_a_model_of_300_lines() -> None:
    assert len(READER.splitlines()) >= 300
    kind = breaks(READER)
    small, calls = reduced(READER, lambda text: breaks(text) == kind)
    assert kind == "Data-dependent branching"
    assert lines(small) <= 8
    assert calls <= 60
    assert "if " in small


@pytest.mark.slow
def test_a_wrong_result_of_dynamo_in_a_longer_function() -> None:
    text = clean("""
    import numpy as np

    def normalise(a):
        centre = np.mean(a)
        spread = np.std(a) + 1e-6
        return (a - centre) / spread

    def histogram(a, bins=8):
        edges = np.linspace(0.0, 1.0, bins + 1)
        counts = [np.sum((a >= edges[i]) & (a < edges[i + 1])) for i in range(bins)]
        return np.stack(counts) / len(a)

    def summary(a, quantile=30):
        flat = np.reshape(a, (-1,))
        scaled = normalise(flat)
        limited = np.minimum(np.maximum(scaled, -2.0), 2.0)
        level = np.percentile(limited, quantile)
        if quantile > 50:
            level = level * 2
        shares = histogram(flat)
        return {"level": level, "shares": shares, "spread": limited.ptp()}

    def build():
        return summary, (np.linspace(0.0, 1.0, 24).reshape(4, 6),)
    """).replace("limited.ptp()", "np.max(limited)")

    def wrong(model, args, kwargs) -> bool:
        expected = model(*args, **kwargs)
        got = torch.compile(model, backend="eager")(*args, **kwargs)
        if isinstance(expected, dict):
            return any(np.shape(got[key]) != np.shape(value) for key, value in expected.items())
        return np.shape(got) != np.shape(expected)

    small, calls = reduced(text, lambda candidate: runs(candidate, wrong))
    assert "np.percentile" in small
    assert lines(small) <= 5
    assert calls <= 150


def test_caller_and_callee_that_fail_only_together() -> None:
    text = clean("""
    import torch
    import torch.nn as nn

    STATE = {"on": False}

    def helper(x, factor):
        y = x.sum() * factor
        if torch.is_grad_enabled():
            return y
        if y > 3:
            y = y - 3
        return y

    class Model(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.lin = nn.Linear(width, width)
            self.norm = nn.LayerNorm(width)

        def forward(self, x):
            x = self.norm(self.lin(x))
            with torch.no_grad():
                z = helper(x, 7)
            return z, x.sum()

    def build():
        return Model(4), (torch.randn(2, 4),)
    """)
    kind = breaks(text)
    small, _ = reduced(text, lambda candidate: breaks(candidate) == kind)
    assert kind == "Data-dependent branching"
    assert "if " in small
    assert lines(small) <= 7


def test_the_names_model_and_inputs_are_an_entry_too() -> None:
    text = clean("""
    import torch

    def inner(x):
        y = x.relu()
        return 1 if y.sum() > 0 else 2

    def outer(x, y):
        z = x @ y
        z = z.softmax(-1)
        return inner(z), z

    model = outer
    inputs = (torch.randn(3, 4), torch.randn(4, 5))
    """)
    kind = breaks(text)
    small, _ = reduced(text, lambda candidate: breaks(candidate) == kind)
    assert "if" in small
    assert lines(small) <= 6
    assert "model = " in small


def test_no_statement_can_be_taken_away() -> None:
    text = (
        clean("""
    import torch

    def model(x, n):
        total = x
        for i in range(n):
            with torch.no_grad():
                total = total + i
            print(total)
        try:
            total = total * 2
        finally:
            x = total.tolist()
        return x

    inputs = (torch.zeros(2), 3)
    """).replace("def model", "def f")
        + "model = f\n"
    )

    def doubled(model, args, kwargs) -> bool:
        return str(model(*args, **kwargs)) == "[6.0, 6.0]"

    small, _ = reduced(text, lambda candidate: runs(candidate, doubled))
    tree = ast.parse(small)
    for body in [node.body for node in ast.walk(tree) if hasattr(node, "body")]:
        for index in range(len(body)):
            statement = body.pop(index)
            if body:
                assert not runs(ast.unparse(tree), doubled), ast.unparse(tree)
            body.insert(index, statement)


def test_one_job_and_three_give_the_same() -> None:
    text = clean("""
    import torch

    def a(x):
        return x + 1

    def b(x):
        return a(x) * 2

    def c(x, y=3):
        z = b(x)
        w = z - y
        if w.sum() > 0:
            return w
        return z

    def build():
        return c, (torch.ones(3, 3),)
    """)
    kind = breaks(text)

    def judge(candidate: str) -> Verdict:
        return Verdict.SAME if breaks(candidate) == kind else Verdict.OTHER

    results = []
    for jobs in (1, 3):
        problem = judged(text, judge, jobs=jobs)
        reduce_source(problem)
        results.append(problem.current)
    assert results[0] == results[1]


def test_a_text_without_an_entry() -> None:
    text = block("""
        import math

        def f(x):
            y = x * 2
            return y

        z = f(21)
        w = math.pi
    """)

    def has_z(candidate: str) -> bool:
        space: dict[str, object] = {}
        try:
            exec(candidate, space)
        except Exception:
            return False
        return space.get("z") == 42

    small, _ = reduced(text, has_z)
    assert lines(small) <= 3
