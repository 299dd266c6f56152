"""Sentences quote the user's expression and the value it had."""

from __future__ import annotations

import re

import pytest

from fullgraph.compiler.categories import Category
from fullgraph.compiler.observe import ObservedExpression
from fullgraph.diagnose.causes import diagnose
from fullgraph.diagnose.taxonomy.sentences import WIDTH, describe_break, quote
from fullgraph.diagnose.taxonomy.usage import Usage
from tests.diagnose.taxonomy.snippets import a_break, breaks
from tests.text import block


@pytest.mark.compiles
@pytest.mark.parametrize(
    "text, expression, value, said",
    [
        (
            block("""
                if x.sum() > 0:
                    y = x + 1
                else:
                    y = x"""),
            "x.sum() > 0",
            "bool[] True",
            "`x.sum() > 0` is a tensor (bool[], here True): the branch depends on data.",
        ),
        (
            "y = x[mask]",
            "x[mask]",
            "f32[7]",
            "`x[mask]` has a shape that depends on the values of its mask (here f32[7]).",
        ),
        (
            "y = x * x.sum().item()",
            "x.sum().item()",
            "5.074623755428107",
            "`x.sum().item()` extracts a Python scalar from a tensor (here 5.07462).",
        ),
        (
            "y = torch.ones(labels.sum(), 2)",
            "torch.ones(labels.sum(), 2)",
            "f32[11, 2]",
            "`torch.ones(labels.sum(), 2)` needs a Python number where it gets a tensor.",
        ),
        (
            "y = x * time.time()",
            "time.time()",
            None,
            "`time.time()` cannot be traced: it reads the clock.",
        ),
    ],
)
def test_a_sentence_holds_the_expression_and_its_value(text, expression, value, said) -> None:
    brk = breaks(text, "default")[0]
    seen = ObservedExpression(brk.stack[-1], expression, 1, (value,)) if value else None
    assert diagnose(brk, seen=seen, expression=expression).sentence == said


def test_a_raise_is_no_error_of_tracing() -> None:
    brk = a_break("Observed exception", context="raised exception ValueError('no')")
    assert diagnose(brk, expression="raise ValueError('no')").sentence == (
        "`raise ValueError('no')` leaves the compiled region with an exception."
    )
    assert "`ValueError('no')`" in diagnose(brk, expression="check(x)").sentence


@pytest.mark.compiles
def test_the_code_of_torch_below_is_named_and_not_called_the_users() -> None:
    brk = breaks("y = torch.distributions.Wishart(x.sum(), torch.eye(3)).mean", "default")[0]
    assert "torch/distributions/" in brk.stack[-1].file
    diagnosis = diagnose(brk, expression="torch.distributions.Wishart(n, eye)")
    assert re.fullmatch(
        r"`torch\.dist.*` branches on a tensor: `.+` in torch/distributions/wishart.py:\d+\.",
        diagnosis.sentence,
    )
    assert diagnosis.advice[0].text.startswith("Do `torch.distributions.Wishart(")


@pytest.mark.parametrize(
    "category, usage, claim",
    [
        (Category.SCALAR, Usage("n"), "must be a Python number"),
        (Category.SCALAR, Usage("int(n)"), "from a tensor"),
        (Category.SCALAR, Usage("draw(n)", below="`a.item()` in torch/b.py:3"), "`a.item()`"),
        (Category.IMPORT, Usage("import not_there.b as b"), "`not_there` is not installed"),
        (Category.IMPORT, Usage("import json"), "it imports a module"),
        (
            Category.BRANCH,
            Usage("a > b", value="True", context="UnspecializedPythonVariable"),
            "that Dynamo holds as a tensor",
        ),
        (Category.OBJECT, Usage("self.table", is_target=True), "The assignment to `self.table`"),
        (
            Category.RANDOM,
            Usage("np.random.rand()", context="aten._local_scalar_dense"),
            "known only when the graph runs",
        ),
        (
            Category.NUMPY_SCALAR,
            Usage("np.zeros(n)", context="aten._local_scalar_dense"),
            "needs Python numbers, and gets NumPy's",
        ),
        (
            Category.NUMPY_SCALAR,
            Usage("np.mean(c)", context="failed to convert [zuf0]"),
            "an array",
        ),
        (Category.PARAMETER, Usage("nn.Parameter(x)"), "makes an nn.Parameter"),
        (Category.DYNAMIC_SHAPE, Usage("f(x)", value="f32[] 2.0"), "computes with a tensor whose"),
        (Category.DYNAMIC_SHAPE, Usage("f(x)", value="tuple of 2 f32[3]"), "makes a tensor whose"),
    ],
)
def test_a_sentence_claims_what_was_seen(category: Category, usage: Usage, claim: str) -> None:
    assert claim in describe_break(a_break("any"), usage, category)


def test_a_statement_is_quoted_by_its_head() -> None:
    assert (
        quote(
            block("""
                if a > 0:
                    b()
                else:
                    c()""")
        )
        == "`a > 0`"
    )
    assert (
        quote(
            block("""
                with lock, other as o:
                    b()""")
        )
        == "`with lock, other as o`"
    )
    assert quote("for row in rows: b(row)") == "`for row in rows`"
    assert (
        quote(
            block("""
                class A:
                    pass""")
        )
        == "`class A`"
    )


def test_a_long_expression_is_shortened_in_the_middle() -> None:
    text = quote("f(" + ", ".join(f"argument_{i}" for i in range(20)) + ")")
    assert len(text) <= WIDTH + 2
    assert text.startswith("`f(argument_0") and text.endswith("argument_19)`")


def test_an_expression_that_cannot_be_read_is_this_code() -> None:
    diagnosis = diagnose(a_break("Data-dependent branching"), expression="")
    assert diagnosis.sentence.startswith("This code is")


@pytest.mark.parametrize("category", Category)
def test_every_category_has_a_sentence_of_one_line(category: Category) -> None:
    from fullgraph.diagnose.taxonomy.sentences import _SENTENCES

    own = {Category.EXCEPTION, Category.RECOMPILE_LIMIT, Category.OTHER}
    assert (category in _SENTENCES) != (category in own)
    assert "\n" not in _SENTENCES.get(category, "")
