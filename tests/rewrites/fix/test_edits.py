"""Edits of the rules in the causes of an explanation."""

import os
import time

import pytest
import torch
import torch._inductor.config

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
    guard = printed.edits[0]
    assert guard.rule == "FG113" and guard.applicability == "unsafe"
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


def checked(x):
    if torch.isnan(x).any():
        raise ValueError("nan")
    return x + 1


def logged(x):
    print(f"mean {x.mean().item():.3f}")
    return x + 1


def timed(x):
    start = time.perf_counter()
    return x * start


def counted(x):
    return x * names[x.argmax().item()], x[x.nonzero()[0, 0].item() :]


names = dict.fromkeys(range(9), 2.0)


def test_plain_code_comes_before_a_new_operator():
    (cause,) = fullgraph.explain(checked, torch.ones(3)).causes
    rules = [edit.rule for edit in cause.edits]
    assert rules.index("FG102") < rules.index("FG101")


def test_an_edit_that_removes_two_causes_names_each_once():
    scalar, printed = fullgraph.explain(logged, torch.ones(3)).causes
    assert scalar.edits[0].diff == printed.edits[0].diff
    assert scalar.edits[0].removes == (scalar.id, printed.id)


def matched(cost):
    rows = sorted(set(cost.argmin(1).tolist()))
    cost = torch.sin(cost).exp().tanh() + 1
    return cost[rows], os.getenv("A" * int(cost.min().item()))


def partly_matched(x):
    kept, text = matched(x.sin().cos().exp().tanh())
    return kept.sin().cos().exp().tanh().relu(), text


def test_a_boundary_that_leaves_nearly_nothing_in_the_graphs_is_not_offered():
    for program, is_offered in ((lambda x: matched(x), False), (partly_matched, True)):
        causes = fullgraph.explain(program, torch.randn(4, 4)).causes
        offered = {edit.rule for cause in causes for edit in cause.edits}
        assert ("FG905" in offered) == is_offered


def test_an_idea_in_words_is_advice_and_no_edit():
    (cause,) = fullgraph.explain(timed, torch.ones(3)).causes
    assert not cause.edits
    assert cause.advice


def test_settings_are_offered_where_they_make_the_function_whole_and_each_for_its_own_causes():
    for program, is_whole in ((counted, False), (positive_sum, True)):
        for cause in fullgraph.explain(program, torch.eye(3)[0]).causes:
            settings = [s for edit in cause.edits for s in edit.settings]
            assert bool(settings) == is_whole
            assert all(edit.removes == (cause.id,) for edit in cause.edits if "shape" in str(edit))


def positive_sum(x):
    kept = x[x > 0]
    return torch.relu(x) * kept.sum().item()


def test_a_program_that_fullgraph_captures_is_verified_under_inductor():
    x = torch.tensor([1.0, -2.0, 3.0])
    assert fullgraph.explain(positive_sum, x).verification is None
    found = fullgraph.explain(positive_sum, x, verify=True)
    assert found.causes and found.fullgraph.ok
    assert found.verification is not None and found.verification.ok
    assert fullgraph.explain(noisy, x, verify=True).verification is None


def test_a_difference_under_inductor_is_told():
    torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"  # undone after each test
    found = fullgraph.explain(positive_sum, torch.tensor([1.0, -2.0, 3.0]), verify=True)
    assert found.verification is not None and not found.verification.ok
    assert "with Inductor it behaves differently" in found.verification.detail
