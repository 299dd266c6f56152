"""Edits for findings: applied until nothing is left, and nothing else is touched."""

import subprocess
import sys

import pytest

from fullgraph.cli import main
from fullgraph.rewrites.check import check, fix_until_stable, fixed_files
from tests.text import block

MODEL = """\
import logging
import torch
from torch import nn

log = logging.getLogger(__name__)


class Old(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_variables   # an odd  layout
        return grad * x


class Net(nn.Module):
    def forward(self, x: torch.Tensor):
        log.info("called")
        return Old.apply(x)
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


def test_a_finding_has_the_edit_of_a_rule(model):
    fixes = {one.category: one.fix for one in check([model]).findings}
    assert fixes["saved_variables"].rule == "FG603"
    assert fixes["saved_variables"].applicability == "safe"
    assert fixes["print / logging"].applicability == "unsafe"


def test_safe_edits_leave_every_other_byte(model):
    assert fix_until_stable(lambda: check([model])) == 1
    assert model.read_text() == MODEL.replace("saved_variables", "saved_tensors")
    assert fix_until_stable(lambda: check([model])) == 0


def test_unsafe_edits_make_it_clean(model):
    assert fix_until_stable(lambda: check([model]), unsafe=True) == 2
    assert check([model]).findings == ()
    assert "if not torch.compiler.is_compiling():" in model.read_text()


def test_the_diff_applies(model):
    diff = fixed_files(check(["model.py"]), unsafe=True).diff
    subprocess.run(["git", "apply", "-"], input=diff, text=True, check=True)
    assert check([model]).findings == ()


def test_diff_and_fix_on_the_command_line(model, capsys):
    assert main(["check", "model.py", "--diff"]) == 1
    assert "+        x, = ctx.saved_tensors" in capsys.readouterr().out
    assert main(["check", "model.py", "--fix"]) == 1
    assert main(["check", "model.py", "--diff"]) == 0


def test_noqa_takes_the_code_of_the_finding_or_of_its_fix(model):
    text = MODEL.replace('"called")', '"called")  # noqa: FGB201')
    model.write_text(text.replace("# an odd  layout", "# noqa: FG603"))
    assert check([model]).findings == ()


def test_fixes_load_neither_torch_nor_diagnose(model):
    code = block("""
        import sys; from fullgraph.cli import main
        assert main(['check', 'model.py', '--diff', '--unsafe-fixes']) == 1
        bad = [m for m in sys.modules if m.split('.')[0] == 'torch' or 'diagnose' in m]
        assert not bad, bad
    """)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, stdout=subprocess.DEVNULL)
