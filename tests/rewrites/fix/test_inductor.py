"""What `fix` learns from runs under Inductor: no edit needed, or a failure of the compiler's."""

import pytest
import torch

from fullgraph import fix

pytestmark = [pytest.mark.compiles, pytest.mark.slow]

X = torch.tensor([[0.9, -0.2, 0.7, 0.1], [0.3, 0.8, -0.6, 0.95]])


def positions(x):
    return x.flatten()[torch.nonzero(x.flatten() > 0.5).flatten()] * 2


def printing(x):
    y = torch.relu(x)
    print(y.mean())
    return y + 1


def dividing(x):
    if x.sum() > 0:
        x = x + 1
    return x.relu()


def test_what_fullgraph_captures_needs_no_edit():
    fixes = fix(positions, X)
    assert fixes.before.default.breaks and fixes.whole.edits == "none" and fixes.whole.check.ok
    assert "No edit needed: torch.compile(model, fullgraph=True)" in str(fixes)
    assert "Breaks in default mode only" in str(fixes) and "FG901" not in str(fixes)
    assert fixes.to_dict()["whole"] == {"edits": "none", "ok": True, "detail": ""}


def test_an_assumption_is_not_held_against_its_edit():
    fixes = fix(printing, X, select=["FG113"])
    (guard,) = fixes.suggestions
    assert guard.accepted and guard.proof.holds and guard.applicability == "unsafe"
    assert fixes.after_unsafe.default.ok and fixes.whole.edits == "unsafe" and fixes.whole.check.ok


def test_a_failure_that_the_original_shares_is_the_compilers():
    from torch._inductor import config

    config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"  # undone after each test
    fixes = fix(dividing, X)
    assert [s.accepted for s in fixes.suggestions] == [True], fixes
    assert fixes.compiler_failure and "fullgraph bisect" in str(fixes)


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x):
        self.count += 1
        return x * self.count


def test_recompiles_end_with_the_setting_that_was_tried():
    fixes = fix(Counting(), X, calls=[X] * 3)
    found = fixes.call_setting
    assert (found.before, found.after, found.check.ok) == (3, 0, True)
    assert "allow_unspec_int_on_nn_module = True" in str(found.setting)
    assert fixes.to_dict()["recompiles"]["setting"]["after"] == 0
    assert fixes.verdict.startswith("no graph break, 3 recompiles → 0 with a setting")


def looked_up(x, table, t):
    if x.sum() > 99:
        x = x + 1
    return x * table[t]


def test_an_index_that_only_inductor_does_not_take_has_an_edit():
    fixes = fix(looked_up, (X, torch.arange(1.0, 9.0), torch.tensor(3)))
    assert [(s.rule, s.accepted) for s in fixes.suggestions] == [("FG301", True), ("FG201", True)]
    assert "table[t[None]].squeeze(0)" in fixes.diff()
    assert fixes.whole.edits == "safe" and fixes.whole.check.ok
