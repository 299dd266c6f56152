"""Operators of the first call that run in eager, before, between and after its graphs."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fullgraph.compiler.events import Graph
from fullgraph.compiler.observe import run_without_compiling
from fullgraph.compiler.private import innermost_user_line
from fullgraph.compiler.program import Program
from fullgraph.diagnose.trace import IsolatedJob

Line = tuple[str, int]


def make_counting_job(
    program: Program, graphs: Sequence[Graph]
) -> IsolatedJob[tuple[int, ...] | None]:
    """Return the job that counts the operators of the first call beside `graphs`, its graphs.

    It runs the call in eager, and returns the counts of `count_around`; None if the run fails.
    """
    lines = [graph.lines for graph in graphs]
    return lambda emit, in_process: _count_in_eager(program, lines)


def _count_in_eager(program: Program, graphs: Sequence[Collection[Line]]) -> tuple[int, ...] | None:
    skipped = program.eager_calls
    first = replace(program, calls=program.calls[: skipped + 1], loss=None)
    with _LineRecorder() as recorder:

        def forget_eager_call(call: int) -> None:
            if call < skipped:
                recorder.lines.clear()

        raised = run_without_compiling(lambda: first.run(first.target, forget_eager_call))
    return None if raised is not None else count_around(recorder.lines, graphs)


def count_around(lines: Iterable[Line], graphs: Sequence[Collection[Line]]) -> tuple[int, ...]:
    """Return how many operators are in no graph: before the first graph, and after each graph.

    `lines` are those of the operators in the order in which eager runs them, and `graphs` the
    lines of the operators in each graph.
    """
    counts = [0] * (len(graphs) + 1)
    holding: dict[Line, list[int]] = {}
    for number, graph in enumerate(graphs, 1):
        for line in graph:
            holding.setdefault(line, []).append(number)
    reached = 0
    for line in lines:
        if line in holding:  # a loop comes back to a graph: what follows it is still ahead
            reached = next((n for n in holding[line] if n >= reached), reached)
        else:
            counts[reached] += 1
    return tuple(counts)


class _LineRecorder(TorchFunctionMode):
    """Mode that records the user's line of each operator, as Dynamo gives it to a node."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Line] = []

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if _is_operator(function, result):
            stack = traceback.walk_stack(sys._getframe(1))
            line = innermost_user_line((frame.f_code.co_filename, at) for frame, at in stack)
            assert line is not None
            self.lines.append(line)
        return result


def _is_operator(function: Any, result: object) -> bool:
    """Return whether a call is a node where it is traced: it makes tensors, or writes into one."""
    several = result if isinstance(result, list | tuple) else (result,)
    name = getattr(function, "__name__", "")
    makes = any(isinstance(one, torch.Tensor) for one in several) and name != "__get__"
    return makes or name == "__setitem__"
