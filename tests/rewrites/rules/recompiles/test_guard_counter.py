import pytest

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered
from tests.text import block

HEAD = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.count, self.seen = 0, []

    def forward(self, x):
"""


@pytest.mark.parametrize(
    "body",
    [
        "self.count += 1\n        return x * self.count",
        "self.seen.append(x)\n        return sum(self.seen)",
        "return x * self.count",
        "self.seen.append(self.register_forward_hook(print))\n        return x",
        "self.seen.append(x.add_(1))\n        return x",
    ],
)
def test_left_alone(body):
    name = "self.seen" if "seen" in body else "self.count"
    text, rewrites, _ = offered(f"{HEAD}        {body}\n", name, "recompile: length")
    assert not rewrites, text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            block("""
                # note
                        self.count += 1  # calls"""),
            block("""
                # note
                        if not torch.compiler.is_compiling():
                            self.count += 1  # calls"""),
        ),
        (
            "self.seen.append( x )",
            block("""
                if not torch.compiler.is_compiling():
                            self.seen.append( x )"""),
        ),
    ],
)
def test_fixed(before, after):
    name = "self.seen" if "seen" in before else "self.count"
    body = f"{before}\n        return x\n"
    at = before[before.index(name) :].partition(" ")[0].partition(".append")[0]
    source = f"{HEAD.replace('self.count, self.seen = 0, []', 'pass')}        {body}"
    text, rewrites, _ = offered(source, at, "recompile: length")
    assert text == source.replace(before, after)
    assert rewrites[0].applicability is Applicability.UNSAFE
