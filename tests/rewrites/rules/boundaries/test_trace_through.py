import pytest
import torch

from fullgraph import fix
from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, rewritten

X = torch.randn(2, 3)
SOURCE = """import copy
import random
import threading
import time

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lock, self.net = threading.Lock(), torch.nn.Linear(3, 3)

    def scaled(self, x):
        {body}

    def forward(self, x):
        return self.scaled(x * 2) + 1
"""
LOCKED = "return self.net(x) * (2 if self.lock.locked() else 3)"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return x * self.lock.locked() * sorted(x.tolist()[0])[1]", "needs the values"),
        ("return x * self.lock.locked() if not (x.sum() > 0) else x", "`x.sum() > 0` needs the"),
        ("return copy.deepcopy(self.net)(x) * self.lock.locked()", "fails on fake tensors"),
        ("return x * random.uniform(0, 1) * self.lock.locked()", "would stay the same"),
    ],
)
def test_left_alone(body, reason):
    outcome = rewritten(SOURCE.format(body=body), X)
    assert "FG903" not in outcome.rules
    assert any(reason in one for one in outcome.refusals), outcome.refusals


def test_a_method_of_a_plain_object_is_left_alone():
    source = SOURCE.replace("class Model(torch.nn.Module)", "class Model")
    source = source.replace("super().__init__()", "pass").format(body=LOCKED)
    fixes = fix(imported(source).Model().forward, X, select=["FG903"], inductor=False)
    assert "which is no nn.Module" in fixes.unfixed[0].reason


def test_forward_itself_is_left_alone():
    source = SOURCE.format(body="return x").replace("return self.scaled(x * 2)", LOCKED)
    outcome = rewritten(source, X)
    assert "FG903" not in outcome.rules
    assert any("lies in `forward` itself" in one for one in outcome.refusals), outcome.refusals


def test_decorated():
    outcome = rewritten(SOURCE.format(body=LOCKED), X)
    new = "    @torch._dynamo.nonstrict_trace\n    def scaled(self, x):\n"
    assert outcome.source == SOURCE.format(body=LOCKED).replace("    def scaled(self, x):\n", new)
    assert outcome.rules == ["FG903"] and outcome.applicability == [Applicability.UNSAFE]
    outcome.check()


@pytest.mark.compiles
def test_fix_proves_it_under_inductor_and_patches_a_copy():
    model = imported(SOURCE.format(body=LOCKED)).Model()
    plain = vars(type(model))["scaled"]
    fixes = fix(model, (X,))
    assert [made.rule for made in fixes.suggestions if made.accepted] == ["FG903"]
    assert fixes.whole.check.ok and fixes.whole.edits == "unsafe", fixes
    assert vars(type(model))["scaled"] is plain
    fixed = fixes.patched(unsafe=True)
    torch.testing.assert_close(torch.compile(fixed, fullgraph=True, backend="eager")(X), model(X))
