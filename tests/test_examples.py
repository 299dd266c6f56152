"""What examples and pages say is so; the golden data has the causes of the other examples."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from examples import (
    amp_training,
    demo,
    expensive_loss,
    four_suspects,
    suspects,
    training_step,
)
from fullgraph import explain

pytestmark = pytest.mark.compiles

ITEM, PRINT = "x.sum().item()", "print(x.shape)"


def test_in_a_loop_torchs_own_explain_sees_nothing() -> None:
    model, x = suspects.build_loop()
    with contextlib.redirect_stdout(io.StringIO()):
        said = torch._dynamo.explain(model)(x)
    assert (said.graph_count, said.graph_break_count, said.break_reasons) == (0, -1, [])
    torch._dynamo.reset()
    found = explain(model, x)
    assert [(c.expression, c.frame, c.hidden) for c in found.causes] == [
        (ITEM, "skipped", False),
        (PRINT, "skipped", True),
    ]
    assert found.causes[1].behind == "C1"


def test_the_demo_prints_both_and_writes_its_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.chdir(str(tmp_path))
    assert demo.main() == 0
    shown = capsys.readouterr().out
    assert "graphs: 0, breaks: -1" in shown
    assert "without a graph: 1 break from 1 cause, 1 more hidden" in " ".join(shown.split())
    assert demo.PAGE.exists()


def test_a_training_step_under_autocast() -> None:
    model, inputs = training_step.build()
    found = explain(model.train(), inputs, loss=True, backend="aot_eager")
    (cause,) = found.causes
    assert cause.expression == 'print("logits", logits.dtype)'
    assert cause.state == ("autocast(cpu, bfloat16)",)
    assert found.default.graphs == 2
    assert all(p.grad is None for p in model.parameters())


def test_two_of_the_published_suspects_break() -> None:
    found = explain(*four_suspects.build())
    assert [(c.expression, c.modes) for c in found.causes] == [
        (ITEM, ("default",)),
        ("print(x)", ("default", "fullgraph")),
    ]
    guard = found.causes[1].edits[0]
    assert guard.after == ("if not torch.compiler.is_compiling():", "    print(x)")
    assert guard.applicability == "unsafe"  # compiled code no longer prints


def test_an_amp_loop_trains_and_its_model_prints_in_each_block(
    capfd: pytest.CaptureFixture[str],
) -> None:
    first, second = amp_training.main("eager")
    assert first > 0 and second > 0
    found = explain(*amp_training.build(), loss=True)
    (cause,) = found.causes
    assert cause.expression == 'print("attention", x.dtype)'
    assert (cause.module_path, cause.events) == ("blocks[0..1]", 2)


def test_an_expensive_loss_is_explained_by_itself() -> None:
    found = explain(*expensive_loss.build(), loss=True)
    assert [(c.expression, c.modes) for c in found.causes] == [
        ("similar[~equal]", ("default",)),
        ("hard.max() > 0.9", ("default", "fullgraph")),
    ]
    shown = str(found)
    assert "edit: lines 23–24: hard = torch.where(~equal, similar, 0)" in shown
    assert "line 27: return pull + " in shown
    assert "lines 24–25: hard = torch.where(" in shown


@pytest.mark.slow
def test_two_ranks_report_their_own_breaks_and_do_not_wait_for_each_other() -> None:
    command = [sys.executable, "-m", "examples.two_ranks"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    assert [line for line in done.stdout.split("\n") if line.startswith("  ")] == [
        '  line 36: print("mean", x.mean())',
        "  line 40: total > 100",
    ]


def test_the_page_of_stages_is_up_to_date() -> None:
    script = Path(__file__).parents[1] / "docs/lowering.py"
    subprocess.run([sys.executable, str(script), "--check"], check=True, timeout=200)
