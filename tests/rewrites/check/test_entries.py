"""Entries that are named: functions that run compiled though the source does not show it."""

import pytest

from fullgraph.cli import main
from fullgraph.rewrites.check import check
from tests.text import block

LOOP = """\
class Trainer:
    def step(self, x):
        print(x)


def step(x):
    print(x)
"""


@pytest.fixture
def loop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop.py").write_text(LOOP)
    return tmp_path


def lines(*entries):
    return [one.line for one in check(["loop.py"], entries=entries).findings]


def test_nothing_is_an_entry_unless_named(loop):
    assert lines() == []


def test_functions_and_methods_can_be_named(loop):
    assert lines("loop:step") == [7]
    assert lines("loop:Trainer.step") == [3]
    assert lines("loop:step", "loop:Trainer.step") == [3, 7]


def test_entries_of_files_that_are_not_checked_are_left_alone(loop):
    assert lines("other:step") == []


@pytest.mark.parametrize("name", ["loop:gone", "loop:Trainer.gone", "loop:Trainer", "loop", ":x"])
def test_a_name_without_a_function_is_bad_input(loop, name, capsys):
    assert main(["check", "loop.py", "--entry", name]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and name.rpartition(":")[2] in said


def test_pyproject_names_entries(loop, capsys):
    (loop / "pyproject.toml").write_text(
        block("""
            [tool.fullgraph.check]
            entry = ["loop:step"]
        """)
    )
    assert main(["check", "loop.py"]) == 1
    assert "loop.py:7:5 FGB201" in capsys.readouterr().out
