import pytest
import torch

from tests.rewrites.harness import offered, rewritten
from tests.text import block

HEAD = block("""
    import torch


    def helper(x):
        return x + torch.ones(4)


""")
CATEGORY = "context manager"
X = torch.randn(4)


@pytest.mark.parametrize(
    "lines",
    [
        block("""
            with torch.device("cpu"):
                    return helper(x)"""),
        block("""
            with torch.device("cpu"), torch.no_grad():
                    return x + torch.ones(4)"""),
        block("""
            with torch.device("cpu") as d:
                    return x + torch.ones(4)"""),
        block("""
            with torch.device("cp" + "u"):
                    return x + torch.ones(4)"""),
        block("""
            with torch.device("cpu"):
                    return torch.nn.Linear(4, 4)(x)"""),
        block("""
            with torch.device(place):
                    place = "meta"
                    return x + torch.ones(4)"""),
        block("""
            with torch.device("cpu"):
                    return x + torch.ones(4, device=place)"""),
    ],
)
def test_left_alone(lines):
    source = f"{HEAD}def f(x, place='cpu'):\n    {lines}\n"
    context = lines.partition("with ")[2].partition(")")[0] + ")"
    context = 'torch.device("cp" + "u")' if 'cp" +' in lines else context
    text, _, refusals = offered(source, context, CATEGORY, X)
    assert not text and refusals


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            block("""
                # on the CPU
                    with torch.device("cpu"):
                        # ones
                        y = torch.ones( 4 )  # four
                        y = y + torch.arange(4,)
            """),
            block("""
                # on the CPU
                    # ones
                    y = torch.ones( 4,  device="cpu")  # four
                    y = y + torch.arange(4,device="cpu")
            """),
        ),
        (
            block("""
                with torch.device("cpu"):
                        y = torch.zeros(4, device="cpu")
            """),
            'y = torch.zeros(4, device="cpu")\n',
        ),
        (
            block("""
                with torch.device(x.device):
                        y = torch.zeros(4).sin()
            """),
            "y = torch.zeros(4, device=x.device).sin()\n",
        ),
    ],
)
def test_fixed(before, after):
    outcome = rewritten(f"{HEAD}def f(x):\n    {before}    return x + y\n", X.requires_grad_())
    assert outcome.source == f"{HEAD}def f(x):\n    {after}    return x + y\n", outcome.refusals
    outcome.check(exact=True)


def test_a_device_of_none_is_that_of_the_block():
    source = f"{HEAD}def f(x):\n    with torch.device('meta'):\n        return torch.ones(4{{}})\n"
    text, *_ = offered(source.format(", device=None"), "torch.device('meta')", CATEGORY, X)
    assert "return torch.ones(4, device='meta')" in text


@pytest.mark.parametrize(
    ("device", "after", "is_assumed"),
    [
        ("d", "return y, y.device", True),
        ("d", "return y", False),
        ("x.device", "return y, y.device", False),
        ("'cpu'", "return y, y.device", False),
    ],
)
def test_an_index_of_the_cpu_shows_where_devices_are_read(device, after, is_assumed):
    body = f"with torch.device({device}):\n        y = torch.ones(4)\n    {after}"
    source = f"{HEAD}def f(x, d):\n    {body}\n"
    _, rewrites, _ = offered(source, f"torch.device({device})", CATEGORY, X, "cpu", rule="FG811")
    assert rewrites[0].assumes == (('`d` is never "cpu:0"',) if is_assumed else ())
