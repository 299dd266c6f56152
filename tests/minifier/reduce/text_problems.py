"""Judges of texts: each candidate is executed in a forked child."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fullgraph.compiler.isolation import run_isolated
from fullgraph.minifier.oracle.candidate import Verdict
from fullgraph.minifier.reduce.source.entry_point import entry_call, load_module
from fullgraph.minifier.reduce.source.passes import reduce_source
from tests.minifier.fake_oracle import judged


def breaks(text: str) -> str:
    """The kind of graph break that compiling the whole text meets; "" where eager fails."""

    def job(say: Callable[[object], None]) -> str:
        model, args, kwargs = entry_call(load_module(text))
        model(*args, **kwargs)
        try:
            torch.compile(model, backend="eager", fullgraph=True)(*args, **kwargs)
        except torch._dynamo.exc.Unsupported as error:
            return str(error).partition("\n")[0]
        return "compiles"

    return run_isolated(job, seconds=60).value or ""


def differs(text: str) -> bool:
    """Whether the output's type or shape is another one under Dynamo."""

    def job(say: Callable[[object], None]) -> bool:
        model, args, kwargs = entry_call(load_module(text))
        expected = model(*args, **kwargs)
        got = torch.compile(model, backend="eager")(*args, **kwargs)
        return described(expected) != described(got)

    return bool(run_isolated(job, seconds=60).value)


def described(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: described(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [described(each) for each in value]
    return type(value).__name__, getattr(value, "shape", None)


def reduced(text: str, fails: Callable[[str], bool]) -> tuple[str, int]:
    """A text reduced as long as it fails, and the number of texts that were tried."""

    def judge(candidate: str) -> Verdict:
        return Verdict.SAME if fails(candidate) else Verdict.PASSES

    problem = judged(text, judge)
    reduce_source(problem)
    return problem.current, problem.oracle.counts.candidates


def lines(text: str) -> int:
    """The lines of a text that are not empty."""
    return sum(bool(line.strip()) for line in text.splitlines())
