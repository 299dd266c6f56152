"""`fix` end to end: explained, rewritten, proved, explained again."""

import random
import warnings

import pytest
import torch
from torch.testing import assert_close

from fullgraph import fix
from fullgraph.rewrites.proof import ProofState

from . import snippets

pytestmark = pytest.mark.compiles

X = torch.tensor([[0.9, -0.2, 0.7, 0.1], [0.3, 0.8, -0.6, 0.95]])
TWELVE = [
    snippets.wrapper,
    snippets.masked_mean,
    snippets.masked_update,
    snippets.product_of_sizes,
    snippets.normalised,
    snippets.early_return,
    snippets.checked,
    snippets.sometimes,
    snippets.logged,
    snippets.warned,
    snippets.sizes_as_tensor,
    snippets.no_gradient,
    snippets.first_hits,
]


@pytest.mark.parametrize("function", TWELVE, ids=lambda f: f.__name__)
def test_a_snippet_of_the_survey_becomes_one_graph(function):
    fixes = fix(function, X.clone(), inductor=False)
    assert fixes.after_unsafe.default.ok and fixes.after_unsafe.fullgraph.ok, fixes
    new = fixes.patched(unsafe=True)
    asks = function is not snippets.no_gradient  # which takes no tensor that does
    for inputs in (X, -X, X * 0):
        ours, theirs = (inputs.clone().requires_grad_(asks) for _ in range(2))
        torch.manual_seed(0)
        random.seed(0)
        expected, why = _result(function, theirs)
        torch.manual_seed(0)
        random.seed(0)
        actual, other = _result(new, ours)
        assert why == other
        assert_close(actual, expected, equal_nan=True)
        assert_close(ours.grad, theirs.grad, equal_nan=True)


def _result(function, x):
    try:
        y = function(x)
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    if y.requires_grad:
        y.sum().backward()
    return y.detach(), None


@pytest.mark.parametrize("function", [snippets.size_from_data, snippets.recurrent])
def test_a_control_is_left_alone_with_a_reason(function):
    fixes = fix(function, X[None] if function is snippets.recurrent else X, inductor=False)
    assert fixes.after_unsafe.causes == fixes.before.causes
    assert not fixes.diff(unsafe=True)
    assert fixes.unfixed and fixes.unfixed[0].reason


def test_what_was_not_proved_is_not_safe():
    fixes = fix(snippets.checked, X, inductor=False)
    for suggestion in fixes.suggestions:
        if suggestion.applicability == "safe":
            assert suggestion.proof.state is ProofState.PROVED


def test_the_guard_leads_and_the_operator_is_the_safe_edit():
    fixes = fix(snippets.warned, X * 100, inductor=False)
    accepted = [(s.rule, s.replaced_by) for s in fixes.suggestions if s.accepted]
    assert accepted == [("FG113", ""), ("FG112", "FG113")], fixes
    assert "1 edit, proved, 1 of them shorter as an unsafe edit" in fixes.verdict
    assert "otherwise FG113 takes its place" in str(fixes)
    assert not fixes.after.causes and not fixes.after_unsafe.causes
    assert "custom_op" in fixes.diff() and "custom_op" not in fixes.diff(unsafe=True)
    with pytest.warns(UserWarning, match="large"):
        torch.compile(fixes.model, backend="eager", fullgraph=True)(X * 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.compile(fixes.patched(unsafe=True), backend="eager", fullgraph=True)(X * 100)


def test_an_edit_that_brings_a_branch_with_a_cause_in_it_pays_with_its_edit():
    fixes = fix(snippets.halve_until_small, X.clone(), inductor=False)
    new, large = fixes.patched(unsafe=True), X * 100
    assert fixes.after_unsafe.fullgraph.ok and not fixes.after_unsafe.causes, fixes
    with pytest.warns(UserWarning, match="still large"):
        assert_close(new(large), large / 64)
    assert_close(new(X), X / 16)


def test_an_edit_that_brings_a_branch_pays_with_the_edit_of_the_branch():
    fixes = fix(snippets.mean_of_some, X.clone().requires_grad_(), inductor=False)
    assert [s.rule for s in fixes.suggestions if s.accepted] == ["FG401", "FG301"]
    assert [s.proof.state for s in fixes.suggestions] == [ProofState.PROVED, ProofState.PROVED]
    assert fixes.after.fullgraph.ok and not fixes.unfixed
    nothing = X * 0
    assert_close(fixes.model(nothing), snippets.mean_of_some(nothing))
