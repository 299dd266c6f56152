"""An error of fullgraph's own costs one row or one edit, not the report."""

import pytest
import torch

from fullgraph import explain
from fullgraph.compiler.errors import FullgraphError, contain
from fullgraph.diagnose.causes import diagnosis
from fullgraph.diagnose.report import rows
from fullgraph.rewrites.rule import Refusal, Rule

pytestmark = pytest.mark.compiles


@pytest.fixture(autouse=True)
def expected(own_errors):
    yield
    own_errors.clear()


def chatty(x):
    print(x.sum())
    if x.sum() > 0:
        return x + 1
    return x


def broken(*args, **options):
    raise TypeError("an int and\n None")


OURS = "fullgraph itself raised TypeError: an int and None (diagnose/test_contained.py:"


def test_a_break_that_cannot_be_described_is_a_row(monkeypatch):
    whole = explain(chatty, torch.ones(3))
    monkeypatch.setattr(diagnosis, "classify", broken)
    found = explain(chatty, torch.ones(3))
    assert [one.position for one in found.causes] == [one.position for one in whole.causes]
    assert [one.expression for one in found.causes] == [one.expression for one in whole.causes]
    assert all(OURS in one.message for one in found.causes)
    assert "TypeError" in found.text(verbose=True)


def test_a_row_without_its_edit(monkeypatch):
    found = explain(chatty, torch.ones(3))
    monkeypatch.setattr(rows, "_describe_change", broken)
    assert str(found).count("itself raised") == len(found.causes)


def test_a_rule_that_raises_refuses():
    rule = Rule("FG000", "broken", frozenset(), broken)
    refusal = rule.answer(None)
    assert isinstance(refusal, Refusal) and refusal.reason.startswith(OURS)


def test_bad_input_is_no_error_of_ours():
    def refused():
        raise FullgraphError("no")

    with pytest.raises(FullgraphError, match="no"):
        contain(refused, str)


class Forwards(torch.nn.Module):
    """A wrapper without a state of its own: attributes are those of the module inside."""

    def __init__(self, inner):
        object.__setattr__(self, "inner", inner)

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "inner"), name)

    def forward(self, x):
        return chatty(self.inner(x))


def test_a_wrapper_that_forwards_attributes_is_explained():
    found = explain(Forwards(torch.nn.Linear(4, 4)), torch.ones(2, 4))
    assert found.error is None and len(found.causes) == 2
