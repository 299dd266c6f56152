"""The plugin in a project of its own, run by pytest as its users run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from fullgraph.compiler.isolation import run_isolated
from tests.text import block

pytestmark = [pytest.mark.compiles, pytest.mark.slow]

PLUGIN = "fullgraph.pytest_plugin"
INSTALLED = any(one.value == PLUGIN for one in entry_points(group="pytest11"))
MODEL = """
import torch


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        return x * 2


def shared(x):
    return x + 1
"""
TESTS = """
import pytest
import torch

from scaling import Scale, shared


@pytest.mark.fullgraph
def test_scale():
    assert torch.compile(Scale(), backend="eager")(torch.ones(3)).sum() == 6


@pytest.mark.fullgraph(only="scaling")
def test_of_one_package():
    torch.compile(lambda x: x * x.sum().item(), backend="eager")(torch.ones(3))


def test_without_marker(explain):
    compiled = torch.compile(lambda x: x * x.sum().item(), backend="eager")
    compiled(torch.ones(3))
    assert explain(shared, torch.ones(3)).default.graphs == 1
"""
BREAKING = "return x * (2 if x.sum() > 0 else 3)"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a model and three tests."""
    (tmp_path / "scaling.py").write_text(MODEL)
    (tmp_path / "test_scaling.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    return tmp_path


ARGUMENTS = ("-p", "no:cacheprovider", *(() if INSTALLED else ("-p", PLUGIN)))


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a project, in a fork of this process, which has torch loaded."""

    def job(emit: object) -> int:
        os.chdir(project)
        return int(pytest.main([*ARGUMENTS, *arguments]))

    ended = run_isolated(job, where="fork", seconds=300)
    assert ended.value is not None, ended
    return subprocess.CompletedProcess(arguments, ended.value, ended.output)


def run_alone(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a project, as its users do."""
    command = [sys.executable, "-m", "pytest", *ARGUMENTS, *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300)


def edit(project: Path, old: str, new: str, file: str = "scaling.py") -> None:
    """Replace a text of a project's file."""
    path = project / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_a_break_fails_its_test_at_the_expression_until_it_is_fixed(project: Path) -> None:
    assert run(project).returncode == 0
    edit(project, "return x * 2", BREAKING)
    done = run_alone(project, "-k", "test_scale")
    assert done.returncode == 1, done.stdout
    assert "1 graph-break cause, 0 allowed" in done.stdout
    assert "scaling.py:11:26: x.sum() > 0 (data-dependent branch)" in done.stdout
    assert "Traceback" not in done.stdout
    edit(project, BREAKING, "return x * 2")
    assert run(project, "-k", "test_scale").returncode == 0


def test_recompiles_are_counted(project: Path) -> None:
    edit(project, "return x * 2", "self.calls += 1\n        return x * 2 + 0 * self.calls")
    edit(project, '(Scale(), backend="eager")(torch.ones(3)).sum() == 6', "True", "test_scaling.py")
    edit(
        project,
        "    assert torch.compileTrue",
        "    model = torch.compile(Scale(), backend='eager')\n    model(torch.ones(3))\n"
        "    model(torch.ones(3))",
        "test_scaling.py",
    )
    done = run(project, "-k", "test_scale")
    assert done.returncode == 1, done.stdout
    assert "1 recompile, 0 allowed" in done.stdout and "self.calls" in done.stdout


def test_a_baseline_fails_only_on_worse(project: Path) -> None:
    workers = ("-n", "2")
    terms = [f"(1 if x[{number}] > 0 else 2)" for number in range(11)]
    edit(project, "x * 2", f"x * {' * '.join(terms[:10])}")
    edit(project, "(torch.ones(3)).sum() == 6", "(torch.ones(11)) is not None", "test_scaling.py")
    baseline = ("--fullgraph-baseline", "graphs.json")
    missing = run(project, *baseline)
    assert missing.returncode == 4 and "there is no baseline" in missing.stdout
    assert run(project, *baseline, "--fullgraph-update", *workers).returncode == 0
    assert run(project, *baseline).returncode == 0
    held = json.loads((project / "graphs.json").read_text())["tests"]
    assert len(held["test_scaling.py::test_scale"]["breaks"]) == 10
    assert "test_scaling.py::test_without_marker" not in held
    edit(project, terms[9], f"{terms[9]} * {terms[10]}")
    worse = run(project, *baseline, *workers)
    assert worse.returncode == 1 and "11 graph-break causes, 10 in the baseline" in worse.stdout
    assert "x[10] > 0" in worse.stdout and "x[9] > 0 (" not in worse.stdout, worse.stdout


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('only="scaling"', 'only="nowhere_at_all"', "there is no such package"),
        ('only="scaling"', "graphs=1", "the marker is fullgraph(breaks=0"),
        ('only="scaling"', 'breaks="none"', "must be a number of breaks"),
    ],
)
def test_a_wrong_marker_is_one_sentence(project: Path, old: str, new: str, message: str) -> None:
    edit(project, old, new, "test_scaling.py")
    done = run(project, "-k", "one_package")
    assert done.returncode != 0 and message in done.stdout


def test_a_broken_baseline_is_one_sentence(project: Path) -> None:
    (project / "graphs.json").write_text('{"schema": 1}')
    done = run(project, "--fullgraph-baseline", "graphs.json")
    assert done.returncode == 4 and "is no baseline (KeyError: 'tests')" in done.stdout, done.stdout


def test_tests_without_a_marker_load_no_torch(project: Path) -> None:
    (project / "test_scaling.py").write_text(
        block("""
            import sys


            def test_plain():
                assert 'torch' not in sys.modules
        """)
    )
    assert run_alone(project).returncode == 0
