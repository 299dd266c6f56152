"""Rules that only a person can follow: shown, never applied."""

import time

import pytest
import torch

from fullgraph import fix
from fullgraph.rewrites.rule import Applicability

pytestmark = pytest.mark.compiles

lstm = torch.nn.LSTM(4, 4)


def timed(x):
    start = time.time()
    return x + 1, start


def recurrent(x):
    return lstm(x)[0]


@pytest.mark.parametrize(("function", "code"), [(timed, "FG711"), (recurrent, "FG901")])
def test_an_idea_is_shown_and_nothing_is_edited(function, code):
    x = torch.tensor([[1.0, 2.0, 3.0, 0.0]])[None] if function is recurrent else torch.arange(4)
    fixes = fix(function, x, inductor=False)
    assert code in {s.rule for s in fixes.suggestions}
    idea = next(s for s in fixes.suggestions if s.rule == code)
    assert not idea.diff and not idea.accepted
    assert idea.applicability is Applicability.DISPLAY
    assert not fixes.diff(unsafe=True)
    assert fixes.unfixed[0].reason
