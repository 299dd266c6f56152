"""What can be done with the result: show, write, run beside the original."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from fullgraph import FullgraphError, explain, fix
from tests.command import fullgraph

from ..harness import imported

pytestmark = pytest.mark.compiles

SOURCE = '''\
"""A model with one line to mend."""
import torch
from torch.autograd import Variable

NOISE = torch.ones(4)


def scaled(x):
    return x * Variable(NOISE)  # old


class Base(torch.nn.Module):
    def forward(self, x):
        return scaled(self.lin(x))


class Model(Base):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)

    def forward(self, x):
        return super().forward(x) + 1


inputs = torch.ones(2, 4)
'''
X = torch.ones(2, 4)


@pytest.fixture(scope="module")
def fixed(tmp_path_factory):
    module = imported(SOURCE, tmp_path_factory.mktemp("model"))
    torch.manual_seed(0)
    return fix(module.Model(), X, inductor=False)


def test_the_verdict_and_the_diff(fixed):
    assert "graphs 3 → 1, causes 1 → 0, 1 edit, proved" in fixed.verdict
    changed = [line for line in fixed.diff().splitlines() if line[:1] in "+-"][2:]
    assert changed == [
        "-    return x * Variable(NOISE)  # old",
        "+    return x * NOISE.detach()  # old",
    ]
    assert repr(fixed) == f"<Fixes: {fixed.verdict}>" and fixed.verdict in str(fixed)


def test_the_view_has_verdict_edit_and_numbered_diff(fixed):
    html = fixed._repr_mimebundle_()["text/html"]
    assert "graphs 3 → 1, causes 1 → 0, 1 edit, proved" in html
    assert html.count("return x * NOISE.detach()  # old") == 2  # in the table and in the diff
    assert "--- a/" not in html


def test_the_patched_copy_runs_beside_the_original(fixed):
    assert explain(fixed.model, X, unmask=False).default.ok
    assert not explain(fixed.subject, X, unmask=False).default.ok
    assert_close(fixed.model(X), fixed.subject(X))
    assert fixed.model.lin.weight is fixed.subject.lin.weight


def test_the_original_runs_the_edits_inside_active(fixed):
    with fixed.active():
        assert explain(fixed.subject, X, unmask=False).default.ok
    assert not explain(fixed.subject, X, unmask=False).default.ok


def test_the_result_is_json(fixed):
    data = json.loads(json.dumps(fixed.to_dict()))
    assert data["schema"] == 1
    assert (data["before"]["causes"], data["after"]["causes"]) == (1, 0)
    (suggestion,) = data["suggestions"]
    assert suggestion["rule"] == "FG601" and suggestion["applicability"] == "safe"
    assert suggestion["proof"]["state"] == "proved" and suggestion["diff"]
    assert suggestion["line"] == 9


def test_applying_needs_a_root_and_can_be_done_once(fixed):
    (file,) = fixed.texts
    with pytest.raises(FullgraphError, match="not under"):
        fixed.apply(roots=[Path(file).parent / "elsewhere"])
    assert fixed.apply(roots=[Path(file).parent]) == (Path(file),)
    assert "x * NOISE.detach()  # old" in Path(file).read_text()
    with pytest.raises(FullgraphError, match="changed since"):
        fixed.apply(roots=[Path(file).parent])


def test_the_command_writes_and_then_finds_nothing(tmp_path):
    (tmp_path / "model.py").write_text(SOURCE)
    told = fullgraph("fix", "model.py:Model", "--diff", "--no-inductor", cwd=tmp_path)
    assert told.returncode == 1, told.stderr
    assert "+    return x * NOISE.detach()  # old" in told.stdout
    write = [sys.executable, "-m", "fullgraph", "fix", "model.py:Model", "--write", "--no-inductor"]
    done = subprocess.run(write, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "x * NOISE.detach()  # old" in (tmp_path / "model.py").read_text()
    again = fullgraph("fix", "model.py:Model", "--diff", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (0, "")


def test_the_same_program_goes_on_where_the_last_run_stopped(tmp_path):
    module = imported(SOURCE, tmp_path)
    model, answers = module.Model(), tmp_path / "answers"
    first, second = [], []

    def run(steps):
        tell = {"progress": lambda step: steps.append(step.what)}
        return fix(model, X, inductor=False, cache=answers, **tell)

    found, again = run(first), run(second)
    assert again.to_dict() == found.to_dict() and (found.reused, again.reused) == (0, 4)
    assert any(step.startswith("proving") for step in first)
    assert {*second} == {"explaining", "recording eager values"}


def test_the_command_keeps_answers_unless_told_not_to(tmp_path):
    (tmp_path / "model.py").write_text(SOURCE)
    folder = Path(os.environ["FULLGRAPH_CACHE"])
    fullgraph("fix", "model.py:Model", "--no-inductor", "--no-cache", cwd=tmp_path)
    assert not folder.exists()
    told = fullgraph("fix", "model.py:Model", "--no-inductor", "--profile", cwd=tmp_path)
    assert len([*folder.iterdir()]) == 1
    assert re.search(r"^ *\d+\.\d s +\d+ × proving$", told.stderr, re.MULTILINE)


def test_bad_input_is_one_sentence(tmp_path):
    (tmp_path / "model.py").write_text(SOURCE)
    for args in (("fix", "model.py:Model", "--select", "FG9999"), ("rule", "FG9999")):
        told = fullgraph(*args, cwd=tmp_path)
        assert told.returncode == 2
        (line,) = (n for n in told.stderr.splitlines() if "importing torch" not in n)
        assert "There is no rule FG9999" in line


def test_a_rule_has_a_page(tmp_path):
    told = fullgraph("rule", "FG601", cwd=tmp_path)
    assert told.returncode == 0 and "Before:" in told.stdout
