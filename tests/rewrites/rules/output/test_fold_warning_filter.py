import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten

pytestmark = pytest.mark.compiles

HEAD = "import warnings\n\nimport torch\n\n\ndef f(x):\n"
X = torch.ones(3)


@pytest.mark.parametrize("body", ["warnings.warn('a')", "y = warnings.simplefilter('ignore')"])
def test_left_alone(body):
    call = body.partition("= ")[2] or body
    text, _, _ = offered(f"{HEAD}    {body}\n    return x\n", call, "warning", rule="FG115")
    assert not text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "with warnings.catch_warnings():\n        warnings.simplefilter('ignore', UserWarning)",
            "with warnings.catch_warnings(action='ignore', category=UserWarning):",
        ),
        (
            "with warnings.catch_warnings():\n        warnings.filterwarnings('error')",
            "with warnings.catch_warnings(action='error'):",
        ),
    ],
)
def test_folded(before, after):
    rest = "\n        y = x + 1\n    return y\n"
    outcome = rewritten(f"{HEAD}    {before}{rest}", X)
    assert outcome.source == f"{HEAD}    {after}{rest}"
    assert outcome.rules == ["FG115"] and outcome.applicability == [Applicability.SAFE]
    outcome.check(exact=True)


def test_guarded():
    line = "warnings.filterwarnings('ignore', message='a')"
    outcome = rewritten(f"{HEAD}    {line}\n    return x + 1\n", X)
    guarded = f"if not torch.compiler.is_compiling():\n        {line}"
    assert outcome.source == f"{HEAD}    {guarded}\n    return x + 1\n"
    assert outcome.rules == ["FG115"] and outcome.applicability == [Applicability.UNSAFE]
    outcome.check(exact=True)
