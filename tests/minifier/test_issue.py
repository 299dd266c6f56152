"""The text for a tracker."""

from __future__ import annotations

import pytest

from fullgraph.minifier.minified import Minified
from fullgraph.minifier.oracle.attempt import RungOutcome
from fullgraph.minifier.oracle.failure import Failure, Kind
from fullgraph.minifier.repro import issue as tracker
from fullgraph.minifier.repro.script import ScriptCheck
from fullgraph.minifier.rungs.bisection import Bisection

SCRIPT = """\
# torch 2.13.0
import torch


def f(x):
    return torch.nn.functional.softshrink(x, 0.5) + x.exp()


x = torch.zeros(3)
got = torch.compile(f, backend="inductor")(x)
"""
CHECK = ScriptCheck(Kind.RESULT, "nan", "0", aspect="nan", where="output[0]")


@pytest.mark.compiles
def test_an_issue_has_what_a_maintainer_asks_for() -> None:
    failure = Failure("inductor", Kind.RESULT, ("nan",), "output[0] (nan): expected nan, got 0")
    rungs = {
        "eager": RungOutcome("eager", None, 0.1),
        "inductor": RungOutcome("inductor", failure, 3.0),
    }
    found = Minified(Bisection("2.13.0", rungs), CHECK, SCRIPT, standalone=True)
    text = tracker.issue(found)
    title, *_ = text.splitlines()
    assert title == (
        'torch.compile(backend="inductor"): wrong result of torch.nn.functional.softshrink, '
        "Tensor.exp: 0 instead of nan"
    )
    assert "output[0] (nan): eager gives nan, compiled 0. `eager` is right" in text
    assert SCRIPT.strip() in text and "| inductor |" in text
    assert "### Versions" in text and "PyTorch " in text


def test_titles_say_what_is_wrong() -> None:
    def title(check: ScriptCheck) -> str:
        return tracker.title_of(check, "inductor", ("Tensor.exp",)).partition(": ")[2]

    assert title(ScriptCheck(Kind.CRASH, signature=("SIGSEGV",))) == "SIGSEGV in Tensor.exp"
    assert title(ScriptCheck(Kind.EXCEPTION, got="KeyError: 3")) == "KeyError: 3 (Tensor.exp)"
    stride = ScriptCheck(Kind.METADATA, "(1, 2)", "(2, 1)", aspect="stride")
    assert title(stride) == "wrong stride of Tensor.exp: (2, 1) instead of (1, 2)"
    assert all(title(ScriptCheck(kind)) for kind in Kind)


def test_a_traceback_is_shortened_and_tells_no_home() -> None:
    frames = [
        f'  File "/home/me/env/lib/site-packages/torch/a{i}.py", line {i}, in f{i}\n    code'
        for i in range(30)
    ]
    last = '  File "/home/me/model.py", line 3, in g\n    code'
    text = "\n".join(["Traceback (most recent call last):", *frames, last, "KeyError: 3"])
    short = tracker.shorten_traceback(text)
    assert "/home/me" not in short and short.count("File") == 6
    assert short.endswith("KeyError: 3") and 'File "torch/a29.py"' in short


def test_of_a_compilers_output_the_errors_are_shown() -> None:
    text = "\n".join(["g++ " + "-x " * 500, *["noise"] * 99, "a.cpp:1: error: bad", *["more"] * 99])
    short = tracker.shorten_traceback(text)
    assert "a.cpp:1: error: bad" in short and len(short.splitlines()) < 60
    assert max(map(len, short.splitlines())) < 210
