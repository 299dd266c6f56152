import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten

HEAD = "import torch\n\n\ndef f(x, r=None):\n"
EAGER = "not torch.compiler.is_compiling()"


def test_an_address_that_is_returned_is_refused():
    text, _, refusals = offered(
        f"{HEAD}    return x + x.data_ptr()\n", "x.data_ptr()", "introspection", rule="FG815"
    )
    assert not text and "decides more than a branch" in str(refusals)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "    if x.data_ptr() & 15:\n        x = x.clone()\n",
            f"    if {EAGER} and x.data_ptr() & 15:\n        x = x.clone()\n",
        ),
        (
            "    x = x if x.data_ptr() % 16 == 0 else x.clone()\n",
            "    x = x if torch.compiler.is_compiling() or x.data_ptr() % 16 == 0 else x.clone()\n",
        ),
        (
            "    if r is None and not x.untyped_storage().nbytes() < 4:\n        x = 2 * x\n",
            "    if r is None and (torch.compiler.is_compiling() or "
            "not x.untyped_storage().nbytes() < 4):\n        x = 2 * x\n",
        ),
        (
            "    assert x.data_ptr() != 0\n",
            "    assert torch.compiler.is_compiling() or x.data_ptr() != 0\n",
        ),
    ],
)
def test_a_condition_is_for_eager_alone(before, after):
    outcome = rewritten(f"{HEAD}{before}    return x + 1\n", torch.ones(4))
    assert outcome.source == f"{HEAD}{after}    return x + 1\n", (outcome.refusals, outcome.before)
    assert outcome.rules == ["FG815"] and outcome.applicability == [Applicability.UNSAFE]
    outcome.check(exact=True)
