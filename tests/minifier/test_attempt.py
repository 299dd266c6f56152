"""Running a case in eager and rung by rung."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch

from fullgraph.compiler.isolation import run_isolated
from fullgraph.compiler.ladder import RUNGS
from fullgraph.minifier.oracle.attempt import RungOutcome, attempt
from fullgraph.minifier.oracle.case import Case

pytestmark = pytest.mark.compiles


def run(program: Callable[..., object], limit: float) -> list[RungOutcome]:
    """Return the outcomes of a program, run in a child."""

    def job(emit: Callable[[object], None]) -> None:
        attempt(Case(program, (torch.ones(2),)), RUNGS[1:2], emit, eager_limit=limit)

    found = run_isolated(job, where="fork", seconds=60)
    return [each for each in found.messages if isinstance(each, RungOutcome)]


def endless(x: torch.Tensor) -> torch.Tensor:
    while True:
        x = x + 1


def test_a_loop_without_end_is_left_in_eager() -> None:
    start = time.monotonic()
    (eager,) = run(endless, 0.5)
    assert eager.rung == "eager" and eager.failure is not None
    assert eager.failure.signature[0] == "TimeoutError" and time.monotonic() - start < 30


def test_a_limit_for_eager_is_none_for_the_compiler() -> None:
    def differing(x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_compiling():
            return x * 3
        return x + 1

    eager, dynamo = run(differing, 30.0)
    assert eager.failure is None and dynamo.failure is not None
    assert dynamo.failure.kind == "result"
