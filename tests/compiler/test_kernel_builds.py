"""What the C++ compiler did once is not done again, and looks the same."""

import subprocess
import traceback
from pathlib import Path

import pytest
import torch
import torch._inductor.config as inductor

from fullgraph.compiler.isolation import preload_inductor, run_isolated
from fullgraph.compiler.private import reuse_kernel_builds

pytestmark = pytest.mark.compiles


def compiled(folder, before, monkeypatch):
    """How compiling goes in a child of its own: what comes of it, and the files that are built."""
    run, built = subprocess.run, []

    def counted(command, **how):
        built.extend(part for part in command if part.endswith(".main.cpp"))
        return run(command, **how)

    def job(emit):
        monkeypatch.setattr(subprocess, "run", counted)
        with reuse_kernel_builds(str(folder), before and str(before)):
            try:
                value = torch.compile(lambda x: torch.relu(x) + 3)(torch.arange(-2.0, 6)).tolist()
            except Exception as error:
                last = traceback.extract_tb(error.__traceback__)[-1].name
                inner = str(error).replace(str(folder), "")
                return type(error).__name__, last, inner, len(built)
        return value, len(built)

    outcome = run_isolated(job, where="fork", cache=str(folder))
    assert outcome.value is not None, outcome
    return outcome.value


@pytest.fixture
def folders(tmp_path):
    preload_inductor()  # a child would load it, and then know of no subprocess to stand in for
    for name in ("one", "two"):
        Path(tmp_path, name).mkdir()
    return tmp_path / "one", tmp_path / "two"


def test_what_another_cache_has_is_copied(folders, monkeypatch):
    one, two = folders
    right = [3, 3, 3, 4, 5, 6, 7, 8]
    assert compiled(one, None, monkeypatch) == (right, 1)
    assert compiled(two, one, monkeypatch) == (right, 0)
    assert compiled(two, None, monkeypatch) == (right, 0)  # now it has its own
    assert sorted(two.rglob("*.so")) and not [*two.rglob("*.so.*")]


def test_what_was_refused_is_refused_in_the_same_words(folders, monkeypatch):
    one, _ = folders
    with inductor.patch({"cpp.inject_relu_bug_TESTING_ONLY": "compile_error"}):
        *first, asked = compiled(one, None, monkeypatch)
        *again, asked_again = compiled(one, None, monkeypatch)
    assert (asked, asked_again) == (1, 0)
    assert first == again
    assert "was not declared in this scope" in first[2]
