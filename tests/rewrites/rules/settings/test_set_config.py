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


@pytest.mark.parametrize(
    ("function", "setting"),
    [(recurrent, "allow_rnn"), (selected, "capture_dynamic_output_shape_ops")],
)
def test_a_setting_that_mends_the_cause_is_proved(function, setting):
    before = getattr(config, setting)
    fixes = fix(function, torch.rand(2, 3, 4), inductor=False, select=["FG901"])
    (idea,) = fixes.suggestions
    assert setting in idea.why and "Caveat: " in idea.why
    assert idea.proof.state is ProofState.PROVED, idea.proof
    assert idea.applicability is Applicability.DISPLAY and not idea.accepted and not idea.diff
    assert getattr(config, setting) is before and fixes.after.causes
    assert "Proved" in str(fixes)


def test_a_setting_that_does_not_help_is_not():
    fixes = fix(listed, torch.rand(3, 2), inductor=False, select=["FG901"])
    (idea,) = (s for s in fixes.suggestions if s.category == "scalar extraction")
    assert idea.proof.state is ProofState.FAILED and idea.proof.reason


def test_what_is_no_setting_is_not_run():
    fixes = fix(extension, torch.rand(3), inductor=False, select=["FG901"])
    assert all(idea.proof.state is ProofState.NOT_RUN for idea in fixes.suggestions)
