"""The pre-commit hook, run by pre-commit in a scratch repository, in an environment of its own."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rewrites.review.scratch import ENVIRONMENT, MODEL, commit, git, repository

pytestmark = [pytest.mark.slow, pytest.mark.compiles]

ROOT = Path(__file__).resolve().parents[3]


CONFIG = """\
repos:
  - repo: {repo}
    rev: {rev}
    hooks:
      - id: fullgraph-check
"""


def copied_project(folder: Path) -> str:
    """Copy the project as it is on disk into a repository; return its commit."""
    listed = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return repository(folder)


@pytest.fixture(scope="module")
def hooked(tmp_path_factory):
    """A repository with the hook, how to run it, and its command `fullgraph`."""
    folder = tmp_path_factory.mktemp("hooked")
    revision = copied_project(folder / "project")
    repo = folder / "repo"
    repository(repo, net=MODEL, clean="import torch\n")
    config = CONFIG.format(repo=folder / "project", rev=revision)
    (repo / ".pre-commit-config.yaml").write_text(config)
    commit(repo)
    environment = {**ENVIRONMENT, "PRE_COMMIT_HOME": str(folder / "home")}

    def run(*arguments):
        command = [sys.executable, "-m", "pre_commit", "run", *arguments]
        done = subprocess.run(command, cwd=repo, env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    code, said = run("--files", "net.py")
    assert code == 1 and "net.py:7:12 FGB101" in said, said
    (command,) = (folder / "home").glob("repo*/py_env-*/bin/fullgraph")
    return repo, run, command


def test_files_without_findings_pass(hooked):
    _, run, _ = hooked
    code, said = run("--files", "clean.py")
    assert code == 0 and "Passed" in said, said


def test_a_fixed_file_passes(hooked):
    repo, run, _ = hooked
    where = "        x = torch.where(x.sum() > 0, x + 1, x)\n"
    old = "        if x.sum() > 0:\n            x = x + 1\n"
    (repo / "net.py").write_text(MODEL.replace(old, where))
    commit(repo)
    code, said = run("--all-files")
    assert code == 0 and "Passed" in said, said


def test_it_runs_without_torch(hooked):
    _, _, command = hooked
    code = "import importlib.util; print(importlib.util.find_spec('torch'))"
    python = command.parent / "python"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"


@pytest.mark.parametrize(
    "arguments",
    [
        "explain net.py:Net --input 2x2",
        "fix net.py:Net --input 2x2",
        "bisect net.py:Net --input 2x2",
        "minify net.py:Net --input 2x2",
        "run net.py",
        "backends",
    ],
)
def test_other_commands_say_what_to_install(hooked, arguments):
    repo, _, command = hooked
    done = subprocess.run(
        [command, *arguments.split()], cwd=repo, capture_output=True, text=True, env=ENVIRONMENT
    )
    name = arguments.partition(" ")[0]
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr == (
        f"fullgraph: `fullgraph {name}` needs torch, which is not installed: run "
        "`pip install 'fullgraph[torch]'`, or your own build of torch 2.10 or later.\n"
    )


def test_the_language_server_says_what_to_install(hooked):
    repo, _, command = hooked
    done = subprocess.run([command, "lsp"], cwd=repo, capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert "run `pip install 'fullgraph[lsp]'`.\n" in done.stderr and done.stderr.count("\n") == 1


def test_the_formats_are_written_without_torch(hooked, tmp_path):
    _, _, command = hooked
    (tmp_path / "net.py").write_text(MODEL)
    outputs = [f"--output={name}:out.{name}" for name in ("sarif", "json", "rdjson", "gitlab")]
    done = subprocess.run([command, "check", "net.py", *outputs], cwd=tmp_path)
    assert done.returncode == 1
    for name in ("sarif", "json", "rdjson", "gitlab"):
        assert json.loads((tmp_path / f"out.{name}").read_text())
