"""Edits of the rules in the causes of an explanation."""

import pytest
import torch

import fullgraph
from fullgraph.diagnose.explain import explain as explain_causes

pytestmark = pytest.mark.compiles


def noisy(x):
    y = x.sum().item()
    print(x)
    return torch.relu(x) * y


def twice(x):
    if x.sum() > 0:
        x = x + 1
    return x


def called_twice(x):
    return twice(twice(x) * 2)


def test_a_cause_has_the_edit_of_its_own_line():
    found = fullgraph.explain(noisy, torch.ones(3))
    scalar, printed = found.causes
    assert "y = x.sum().item()" in scalar.edits[0].before
    assert scalar.edits[0].line == scalar.position.line
    assert scalar.edits[0].removes == (scalar.id,)
    guard = next(edit for edit in printed.edits if edit.rule == "FG113")
    assert guard.after == ("if not torch.compiler.is_compiling():", "    print(x)")
    assert "+    if not torch.compiler.is_compiling():" in guard.diff


def test_without_rules_an_explanation_has_the_same_causes():
    bare = explain_causes(noisy, torch.ones(3))
    assert not any(cause.edits for cause in bare.causes)
    found = fullgraph.explain(noisy, torch.ones(3))
    assert [c.position for c in found.causes] == [c.position for c in bare.causes]
    assert found.runs == (*bare.runs, ("values for edits", 1))


def test_the_first_explanation_comes_without_edits_the_last_one_with_them():
    shown = []
    fullgraph.explain(called_twice, torch.ones(3), progress=shown.append)
    assert not any(cause.edits for cause in shown[0].causes)
    assert all(cause.edits for cause in shown[-1].causes)
