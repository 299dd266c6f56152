"""SKILL.md: a page, and every field, flag and code in it is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fullgraph.cli import command_line
from fullgraph.rewrites.check import Fix
from tests.command import fullgraph

pytestmark = [pytest.mark.compiles, pytest.mark.slow]

SKILL = Path(__file__).resolve().parents[1] / "SKILL.md"
MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return x * 2


def build():
    return Net(), torch.ones(3)
"""


def section(title: str) -> str:
    """Return the part of the page under a heading."""
    return SKILL.read_text().split(f"## {title}")[1].split("\n## ")[0]


def names_in(text: str) -> set[str]:
    """Return the lower-case words in backquotes."""
    return set(re.findall(r"`([a-z_]+)`", text))


def test_it_is_one_page_with_a_description() -> None:
    text = SKILL.read_text()
    assert text.startswith("---\nname: fullgraph\ndescription: ")
    assert len(text.splitlines()) <= 75


def test_every_flag_is_one_of_its_command() -> None:
    _, commands = command_line()
    for command, rest in re.findall(r"`fullgraph (\w+)([^`]*)`", SKILL.read_text()):
        known = {flag for action in commands[command]._actions for flag in action.option_strings}
        assert set(re.findall(r"--[\w-]+", rest)) <= known, command


def test_the_workflow_is_as_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODEL)

    def exit_code(*arguments: str) -> int:
        return fullgraph(*arguments, cwd=tmp_path).returncode

    def run(*arguments: str) -> tuple[int, dict[str, object]]:
        done = fullgraph(*arguments, "--json", cwd=tmp_path)
        return done.returncode, json.loads(done.stdout)

    code, before = run("explain", "net.py:build")
    assert code == 0
    (cause,) = before["causes"]  # type: ignore[misc]
    assert {"file", "line", "column", "category", "message", "advice", "modes", "hidden"} <= {
        *cause
    }
    assert names_in(section("1. Explain")) <= {*cause, *before}
    (tmp_path / "before.json").write_text(json.dumps(before))

    assert run("check", "net.py")[0] == 1
    (finding,) = run("check", "net.py")[1]["findings"]  # type: ignore[misc]
    wanted = names_in(section("4. Check")) - {"edits", "applicability"}
    assert wanted <= {*finding}
    assert {"edits", "applicability"} <= {*Fix.__dataclass_fields__}

    code, fixes = run("fix", "net.py:build")
    assert (code, [one["reason"] for one in fixes["unfixed"]]) == (0, [])
    (edit,) = [one for one in fixes["suggestions"] if one["accepted"]]  # type: ignore[attr-defined]
    named = names_in(section("2. Fix")) - {"safe", "unsafe", "display", "cause", "reason"}
    assert named <= {*edit}
    assert (edit["applicability"], edit["proof"]["state"]) == ("safe", "proved")
    assert {"reason", "inputs", "state"} <= {*edit["proof"]}

    assert exit_code("fix", "net.py:build", "--diff") == 1
    assert exit_code("fix", "net.py:build", "--write", "--quiet") == 0
    code, after = run("explain", "net.py:build", "--against", "before.json")
    assert code == 0
    assert after["against"]["new"] == [] and len(after["against"]["gone"]) == 1  # type: ignore[index]
    assert run("check", "net.py")[0] == 0
    assert exit_code("explain", "gone.py:build", "--json") == 2
