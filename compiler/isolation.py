"""Running a user's callable without leaving a trace of it.

On CPU it runs in a forked child, and nothing of the user's can change. Where a fork would not
work it runs in this process, and everything is put back afterwards (`snapshot.py`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from fullgraph.compiler.outcome import Outcome, Where

T = TypeVar("T")


def run(
    job: Callable[[Callable[[object], None]], T],
    *,
    objects: Sequence[object] = (),
    seconds: float | None = None,
    on_message: Callable[[object], None] | None = None,
    where: Where | None = None,
) -> Outcome[T]:
    from fullgraph.compiler.forked import run_forked

    return run_forked(job, seconds=seconds, on_message=on_message)
