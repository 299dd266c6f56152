import pytest
import torch
import torch._dynamo.config as config

from fullgraph import fix
from fullgraph.rewrites.proof import ProofState
from fullgraph.rewrites.rule import Applicability

pytestmark = pytest.mark.compiles

lstm = torch.nn.LSTM(4, 4)


def recurrent(x):
    return lstm(x)[0]


def selected(x):
    return x[x > 0]


def listed(x):
    a, b = x[0].tolist()
    return x * a + b


def extension(x):
    return x * len(torch.__config__.show())


def test_without_inductor_it_is_said_that_fullgraph_needs_no_edit():
    fixes = fix(selected, torch.rand(2, 3, 4), inductor=False, select=["FG901"])
    assert not fixes.suggestions
    said = " ".join(str(fixes).split())
    assert "No edit needed: torch.compile(model, fullgraph=True) is one graph (not run" in said


def test_a_setting_that_mends_the_cause_is_proved():
    before = config.allow_rnn
    fixes = fix(recurrent, torch.rand(2, 3, 4), inductor=False, select=["FG901"])
    (idea,) = fixes.suggestions
    assert "allow_rnn" in idea.why and "Caveat: " in idea.why
    assert idea.proof.state is ProofState.PROVED, idea.proof
    assert idea.applicability is Applicability.DISPLAY and not idea.accepted and not idea.diff
    assert config.allow_rnn is before and fixes.after.causes
    assert "Proved" in str(fixes)


def test_a_setting_that_does_not_help_is_not():
    fixes = fix(listed, torch.rand(3, 2), inductor=False, select=["FG901"])
    (idea,) = (s for s in fixes.suggestions if s.category == "scalar extraction")
    assert idea.proof.state is ProofState.FAILED and idea.proof.reason


def test_what_is_no_setting_is_not_run():
    fixes = fix(extension, torch.rand(3), inductor=False, select=["FG901"])
    assert all(idea.proof.state is ProofState.NOT_RUN for idea in fixes.suggestions)
