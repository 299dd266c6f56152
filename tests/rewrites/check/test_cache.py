"""The cache: the same findings warm as cold, and new ones when anything they depend on changes."""

import json

import pytest

from fullgraph.cli import main
from fullgraph.rewrites.check import check
from fullgraph.rewrites.check.examine import Examiner
from tests.text import block

MODEL = """\
import torch
from torch import nn
from pkg.middle import measure


class Net(nn.Module):
    def forward(self, x: torch.Tensor):
        return x * measure(x)
"""
MIDDLE = "from pkg.leaf import measure\n"
LEAF = """\
def measure(x):
    return x.sum().item()
"""
CLEAN = """\
def measure(x):
    return x.sum()
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "pkg").mkdir()
    for name, text in (("__init__", ""), ("model", MODEL), ("middle", MIDDLE), ("leaf", LEAF)):
        (tmp_path / f"pkg/{name}.py").write_text(text)
    return tmp_path


@pytest.fixture
def examined(monkeypatch):
    """Names of the files that were interpreted, in order."""
    names = []
    examine = Examiner.examine

    def spy(self, files):
        names.extend(file.name for file in files)
        return examine(self, files)

    monkeypatch.setattr(Examiner, "examine", spy)
    return names


def checked(project, paths=("pkg",)):
    return check(paths, cache=project / ".fullgraph_cache").findings


def test_a_warm_run_interprets_nothing_and_finds_the_same(project, examined):
    cold = checked(project)
    assert [one.file for one in cold] == ["pkg/leaf.py"] and len(examined) == 4
    assert checked(project) == cold == check(["pkg"]).findings[:1]
    assert len(examined) == 4 + 4, "only the check without a cache read the files again"


def test_a_change_in_a_callee_invalidates_its_callers(project, examined):
    checked(project)
    (project / "pkg/leaf.py").write_text(CLEAN)
    del examined[:]
    assert checked(project) == ()
    assert examined == ["leaf.py", "model.py"]


def test_a_change_behind_an_import_that_is_not_checked_invalidates(project):
    assert checked(project, ["pkg/model.py"]) == ()
    (project / "pkg/middle.py").write_text(
        block("""
            def measure(x):
                return x.sum()
        """)
    )
    (project / "pkg/model.py").write_text(MODEL.replace("x * measure(x)", "float(measure(x))"))
    assert [one.line for one in checked(project, ["pkg/model.py"])] == [8]
    (project / "pkg/middle.py").write_text(
        block("""
            def measure(x):
                return 1.0
        """)
    )
    assert checked(project, ["pkg/model.py"]) == ()


def test_a_file_that_appears_where_an_import_looked_invalidates(project):
    (project / "pkg/leaf.py").unlink()
    assert checked(project) == ()
    (project / "pkg/leaf.py").write_text(LEAF)
    assert [one.file for one in checked(project)] == ["pkg/leaf.py"]
    (project / "pkg/leaf.py").unlink()
    assert checked(project) == ()


def test_a_base_class_in_another_file_is_a_dependency(project):
    (project / "pkg/base.py").write_text(
        block("""
            import torch
            from torch import nn

            class Base(nn.Module):
                def scale(self, x):
                    return x.mean().item()
        """)
    )
    (project / "pkg/model.py").write_text(
        block("""
            import torch
            from pkg.base import Base

            class Net(Base):
                def forward(self, x: torch.Tensor):
                    return x * self.scale(x)
        """)
    )
    assert len(checked(project)) == 1
    text = (project / "pkg/base.py").read_text()
    (project / "pkg/base.py").write_text(text.replace(".item()", ""))
    assert checked(project) == ()


@pytest.mark.parametrize("damage", [b"", b"[]", b"{", b"\xff", b'{"name": 1}', b"null"])
def test_a_damaged_cache_is_computed_again(project, damage):
    cold = checked(project)
    for path in (project / ".fullgraph_cache").glob("*.json"):
        path.write_bytes(damage)
    assert checked(project) == cold == checked(project)


def test_settings_have_records_of_their_own(project):
    folder = project / ".fullgraph_cache"
    (project / "pkg/leaf.py").write_text(
        block("""
            import torch
            def measure(x):
                print(x)
        """)
    )
    assert check(["pkg/leaf.py"], cache=folder).findings == ()
    named = check(["pkg/leaf.py"], entries=["pkg.leaf:measure"], cache=folder)
    assert [one.line for one in named.findings] == [3]
    assert check(["pkg/leaf.py"], cache=folder).findings == ()


def test_unreadable_files_are_said_again(project):
    (project / "pkg/bad.py").write_text("def f(:\n")
    results = [check(["pkg"], cache=project / ".fullgraph_cache") for _ in range(2)]
    assert results[0] == results[1] and len(results[0].unreadable) == 1


def test_fixes_come_from_the_cache_too(project):
    (project / "pkg/leaf.py").write_text(
        block("""
            import torch

            class Net(torch.nn.Module):
                def forward(self, x: torch.Tensor):
                    print("called")
                    return x
        """)
    )
    cold = checked(project)
    assert cold[0].fix is not None and checked(project) == cold


def test_several_processes_find_the_same(project):
    for number in range(40):
        text = MODEL if number % 2 else MODEL.replace("return", "print(x)\n        return")
        (project / f"pkg/model_{number}.py").write_text(text)
    one = check(["pkg"])
    assert check(["pkg"], jobs=3) == one and len(one.findings) == 21
    assert any(finding.fix for finding in one.findings)


def test_the_command_line_keeps_a_cache_in_the_project(project, capsys):
    assert main(["check", "pkg", "--no-cache"]) == 1
    assert not (project / ".fullgraph_cache").exists()
    assert main(["check", "pkg", "--json"]) == 1
    assert (project / ".fullgraph_cache/.gitignore").read_text() == "*\n"
    capsys.readouterr()
    assert main(["check", "pkg", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["findings"]
    assert main(["check", "pkg", "--jobs", "0"]) == 2
    assert "--jobs is the number of processes" in capsys.readouterr().err
