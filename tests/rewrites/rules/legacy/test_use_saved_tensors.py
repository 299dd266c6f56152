import pytest
import torch
from torch.testing import assert_close

from fullgraph.compiler.observe import FunctionValues
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Applicability, Rewrite
from fullgraph.rewrites.rules.legacy.use_saved_tensors import RULE, rewrite
from fullgraph.rewrites.source import parse_document
from tests.rewrites.harness import imported
from tests.text import block

SOURCE = """import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        {line}
        return 2 * x * grad


def f(x):
    return Square.apply(x)
"""


def _asked(line, source=SOURCE):
    text = source.format(line=line)
    document = parse_document("f.py", text)
    number = text[: text.index(line)].count("\n") + 1
    node = document.statement_at(number)
    answer = rewrite(Site(document, node, next(iter(RULE.categories)), FunctionValues()))
    return document, answer


@pytest.mark.parametrize(
    "line",
    ["(x,) = ctx.saved_tensors", "x = grad.saved_variables", "x = ctx.other.saved_variables"],
)
def test_left_alone(line):
    assert _asked(line)[1] is None


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x, = ctx.saved_variables  # old", "x, = ctx.saved_tensors  # old"),
        ("(x, ) = ctx . saved_variables", "(x, ) = ctx.saved_tensors"),
        ("x = ctx.saved_variables[0]", "x = ctx.saved_tensors[0]"),
    ],
)
def test_fixed(before, after):
    document, answer = _asked(before)
    assert isinstance(answer, Rewrite)
    assert answer.applicability is Applicability.SAFE
    text = document.with_edits(answer.replacements, answer.imports)
    assert text == SOURCE.format(line=after)
    gradients = []
    compiled = torch.compile(imported(text).f, backend="aot_eager", fullgraph=True)
    for function in (lambda x: x * x, imported(text).f, compiled):
        x = torch.tensor([1.0, -3.0], requires_grad=True)
        function(x).sum().backward()
        gradients.append(x.grad)
    assert_close(gradients[1], gradients[0])
    assert_close(gradients[2], gradients[0])


@pytest.mark.parametrize(
    "caller",
    [
        block("""
            def f(x):
                y = Square.apply(x)
                x.clamp_(max=1)
                return y
        """),
        "y = Square.apply(torch.ones(2))",
        "def f(x): return x",
    ],
)
def test_what_is_saved_may_be_overwritten(caller):
    text = SOURCE[: SOURCE.index("def f(x)")] + caller
    answer = _asked("x, = ctx.saved_variables", text)[1]
    assert "overwritten" in str(answer.assumes)
