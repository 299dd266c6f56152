import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten
from tests.text import block

HEAD = "import torch\nimport tqdm.auto\nfrom tqdm import tqdm, trange\n\n\ndef f(x):\n"
X = torch.ones(3)


def _source(body):
    return HEAD + "".join(f"    {line}\n" for line in [*body.split("\n"), "return x"])


def _offer(body, expression="tqdm("):
    place = next(line for line in body.split("\n") if expression in line)
    start = place.index(expression)
    call = place[start : place.rindex(")") + 1]
    text, _, refusals = offered(_source(body), call, "print / logging", rule="FG114")
    return text.removeprefix(HEAD) or " ".join(refusals)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            block("""
                with tqdm(range(3)) as bar:
                    x = x + bar.n"""),
            "more than its display",
        ),
        (
            block("""
                bar = tqdm(range(3))
                x = x + len(bar)"""),
            "more than its display",
        ),
        (
            block("""
                for i in tqdm(*x):
                    x = x + i"""),
            "unpacked",
        ),
        (
            block("""
                with tqdm(range(3)) as bar:
                    bar.update()"""),
            "nothing would be left",
        ),
        ("bar = [tqdm(total=3)]", "no iterable"),
    ],
)
def test_left_alone(body, reason):
    assert reason in _offer(body)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            block("""
                for i in tqdm(range(3), 'a'):
                    x = x + i"""),
            block("""
                iterations = range(3)
                if not COMPILED:
                    iterations = tqdm(iterations, 'a')
                for i in iterations:
                    x = x + i"""),
        ),
        (
            block("""
                for i, y in enumerate(tqdm(x, leave=False)):
                    x = x + i"""),
            block("""
                for i, y in enumerate(x if COMPILED else tqdm(x, leave=False)):
                    x = x + i"""),
        ),
        ("x = sum(y for y in tqdm(x))", "x = sum(y for y in (x if COMPILED else tqdm(x)))"),
        (
            block("""
                # steps
                with tqdm(total=2) as bar:
                    for i in range(2):
                        x = x + i
                        bar.update(1)
                    x = x * 2"""),
            block("""
                # steps
                for i in range(2):
                    x = x + i
                x = x * 2"""),
        ),
        (
            block("""
                bar = tqdm(range(2))
                for i in bar:
                    x = x + i
                    if i:
                        bar.set_postfix(i=i)"""),
            block("""
                for i in range(2):
                    x = x + i"""),
        ),
        (
            block("""
                for i in trange(1, 3, disable=True):
                    x = x + i"""),
            block("""
                iterations = range(1, 3)
                if not COMPILED:
                    iterations = trange(1, 3, disable=True)
                for i in iterations:
                    x = x + i"""),
        ),
    ],
)
def test_fixed(before, after):
    expression = "tqdm(" if "tqdm(" in before else "trange("
    after = after.replace("COMPILED", "torch.compiler.is_compiling()")
    assert _offer(before, expression) == _source(after).removeprefix(HEAD)


def test_one_graph():
    outcome = rewritten(
        _source(
            block("""
                for i in tqdm(range(3), disable=True):
                    x = x + i""")
        ),
        X,
    )
    assert outcome.rules == ["FG114"] and outcome.applicability == [Applicability.UNSAFE]
    outcome.check(exact=True)
