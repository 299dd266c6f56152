import pytest
import torch

from tests.rewrites.harness import offered, rewritten

pytestmark = pytest.mark.compiles

HEAD = "import torch\n\n\ndef helper(x):\n    return x + torch.ones(4)\n\n\n"
CATEGORY = "context manager"
X = torch.randn(4)


@pytest.mark.parametrize(
    "lines",
    [
        'with torch.device("cpu"):\n        return helper(x)',
        'with torch.device("cpu"), torch.no_grad():\n        return x + torch.ones(4)',
        'with torch.device("cpu") as d:\n        return x + torch.ones(4)',
        'with torch.device("cp" + "u"):\n        return x + torch.ones(4)',
        'with torch.device("cpu"):\n        return torch.nn.Linear(4, 4)(x)',
    ],
)
def test_left_alone(lines):
    source = f"{HEAD}def f(x):\n    {lines}\n"
    context = lines.partition("with ")[2].partition(")")[0] + ")"
    context = 'torch.device("cp" + "u")' if 'cp" +' in lines else context
    text, _, refusals = offered(source, context, CATEGORY, X)
    assert not text and refusals


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '# on the CPU\n    with torch.device("cpu"):\n        # ones\n'
            "        y = torch.ones( 4 )  # four\n        y = y + torch.arange(4,)\n",
            '# on the CPU\n    # ones\n    y = torch.ones( 4,  device="cpu")  # four\n'
            '    y = y + torch.arange(4,device="cpu")\n',
        ),
        (
            'with torch.device("cpu"):\n        y = torch.zeros(4, device="cpu")\n',
            'y = torch.zeros(4, device="cpu")\n',
        ),
        (
            "with torch.device(x.device):\n        y = torch.zeros(4).sin()\n",
            "y = torch.zeros(4, device=x.device).sin()\n",
        ),
    ],
)
def test_fixed(before, after):
    outcome = rewritten(f"{HEAD}def f(x):\n    {before}    return x + y\n", X.requires_grad_())
    assert outcome.source == f"{HEAD}def f(x):\n    {after}    return x + y\n", outcome.refusals
    outcome.check(exact=True)
