"""Unmasking as `explain` does it: each trial in a forked child, on the real recorder."""

from collections.abc import Callable
from pathlib import Path

import torch

from fullgraph.compiler.events import Recording
from fullgraph.compiler.isolation import run_isolated
from fullgraph.compiler.recording import record
from fullgraph.compiler.sources import read_source
from fullgraph.diagnose.unmask import (
    UnmaskRequest,
    UnmaskResult,
    UnmaskRound,
    trace_with_replacements,
    unmask,
)


def forked(work: Callable[[], object]) -> object:
    """The result of `work` in a forked child."""
    outcome = run_isolated(lambda emit: work(), where="fork")
    assert outcome.status == "ok", (outcome.status, outcome.error)
    return outcome.value


def traced(fn: Callable, *inputs: object) -> Recording:
    """What a compiled call of `fn` records, whether or not it raises."""
    torch._dynamo.reset()
    with record(fn) as recorder:
        try:
            torch.compile(fn, backend="eager")(*inputs)
        except Exception as error:
            print(type(error), error)
    return recorder.recording


def search(fn: Callable, *inputs: object, **budget: float) -> tuple[Recording, list[UnmaskRound]]:
    """The first recording of `fn(*inputs)` and every round behind it."""
    first = forked(lambda: traced(fn, *inputs))

    def trial(trial: UnmaskRequest) -> UnmaskResult:
        return forked(
            lambda: trace_with_replacements(trial, lambda: fn(*inputs), lambda: traced(fn, *inputs))
        )

    return first, list(unmask(first, trial, **budget))


def expression(position) -> str:
    """The source text at a position."""
    source = read_source(position.file)
    node = source and source.node(position)
    return source.segment(node) if node is not None else Path(position.file).name
