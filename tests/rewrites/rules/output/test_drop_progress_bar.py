import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten

pytestmark = pytest.mark.compiles

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
        ("with tqdm(range(3)) as bar:\n    x = x + bar.n", "more than its display"),
        ("bar = tqdm(range(3))\nx = x + len(bar)", "more than its display"),
        ("for i in tqdm(*x):\n    x = x + i", "unpacked"),
        ("with tqdm(range(3)) as bar:\n    bar.update()", "nothing would be left"),
        ("bar = [tqdm(total=3)]", "no iterable"),
    ],
)
def test_left_alone(body, reason):
    assert reason in _offer(body)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "for i in tqdm(range(3), 'a'):\n    x = x + i",
            "iterations = range(3)\nif not COMPILED:\n    iterations = tqdm(iterations, 'a')\n"
            "for i in iterations:\n    x = x + i",
        ),
        (
            "for i, y in enumerate(tqdm(x, leave=False)):\n    x = x + i",
            "for i, y in enumerate(x if COMPILED else tqdm(x, leave=False)):\n    x = x + i",
        ),
        ("x = sum(y for y in tqdm(x))", "x = sum(y for y in (x if COMPILED else tqdm(x)))"),
        (
            "# steps\nwith tqdm(total=2) as bar:\n    for i in range(2):\n        x = x + i\n"
            "        bar.update(1)\n    x = x * 2",
            "# steps\nfor i in range(2):\n    x = x + i\nx = x * 2",
        ),
        (
            "bar = tqdm(range(2))\nfor i in bar:\n    x = x + i\n    if i:\n"
            "        bar.set_postfix(i=i)",
            "for i in range(2):\n    x = x + i",
        ),
        (
            "for i in trange(1, 3, disable=True):\n    x = x + i",
            "iterations = range(1, 3)\nif not COMPILED:\n"
            "    iterations = trange(1, 3, disable=True)\nfor i in iterations:\n    x = x + i",
        ),
    ],
)
def test_fixed(before, after):
    expression = "tqdm(" if "tqdm(" in before else "trange("
    after = after.replace("COMPILED", "torch.compiler.is_compiling()")
    assert _offer(before, expression) == _source(after).removeprefix(HEAD)


def test_one_graph():
    outcome = rewritten(_source("for i in tqdm(range(3), disable=True):\n    x = x + i"), X)
    assert outcome.rules == ["FG114"] and outcome.applicability == [Applicability.UNSAFE]
    outcome.check(exact=True)
