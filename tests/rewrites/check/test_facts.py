"""Facts of a run: what was a tensor, where the source does not show it."""

import pytest

from fullgraph.cli import main
from fullgraph.rewrites.check import check

MODEL = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x, options):
        if options["scale"] > 0:
            x = x * options["scale"]
        if options["deep"]:
            x = x + 1
        return self.clip(x, options["limit"])

    def clip(self, x, limit):
        return x if x.sum() < limit else x * 0


def build():
    scale = torch.ones(())
    return Net(), (torch.ones(3), {"scale": scale, "deep": True, "limit": 9.0})
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def found():
    return [one.line for one in check(["model.py"], facts="facts.json").findings]


@pytest.mark.compiles
def test_a_run_shows_what_the_source_does_not(model, capsys):
    assert [one.line for one in check(["model.py"]).findings] == [13]
    assert main(["explain", "model.py:build", "--facts", "facts.json", "-q"]) == 0
    assert "facts to facts.json" in capsys.readouterr().err
    assert found() == [6, 13]
    assert main(["check", "model.py", "--facts", "facts.json"]) == 1
    assert main(["check", "model.py"]) == 1  # from the cache, which knows the runs apart
    assert capsys.readouterr().out.count("FGB101") == 3
    (model / "model.py").write_text("# another line\n" + MODEL)
    assert found() == [14]


@pytest.mark.parametrize("text", [None, "{}", "[1]", '{"schema": 2, "files": []}', "no JSON"])
def test_a_file_without_facts_is_bad_input(model, capsys, text):
    if text is not None:
        (model / "facts.json").write_text(text)
    assert main(["check", "model.py", "--facts", "facts.json"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("fullgraph: facts.json ") and said.count("\n") == 1
