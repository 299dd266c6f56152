"""Unmasking as `explain` does it: each trial in a forked child, on the real recorder."""

import os
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from fullgraph.compiler.events import Recording
from fullgraph.compiler.recorder import record
from fullgraph.compiler.source import read
from fullgraph.diagnose.trial import Outcome, Trial, perform
from fullgraph.diagnose.unmask import Round, unmask


def forked(work: Callable[[], object]) -> object:
    """The result of `work` in a forked child."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        torch.set_num_threads(1)
        try:
            result = pickle.dumps(work())
        except BaseException:
            result = pickle.dumps(RuntimeError(traceback.format_exc()))
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(result)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        result = pickle.loads(pipe.read())
    os.waitpid(child, 0)
    if isinstance(result, RuntimeError):
        raise result
    return result


def traced(fn: Callable, *inputs: object) -> Recording:
    """What a compiled call of `fn` records, whether or not it raises."""
    torch._dynamo.reset()
    with record(fn) as recorder:
        try:
            torch.compile(fn, backend="eager")(*inputs)
        except Exception as error:
            print(type(error), error)
    return recorder.recording


def search(fn: Callable, *inputs: object, **budget: float) -> tuple[Recording, list[Round]]:
    """The first recording of `fn(*inputs)` and every round behind it."""
    first = forked(lambda: traced(fn, *inputs))

    def trial(trial: Trial) -> Outcome:
        return forked(lambda: perform(trial, lambda: fn(*inputs), lambda: traced(fn, *inputs)))

    return first, list(unmask(first, trial, **budget))


def expression(position) -> str:
    """The source text at a position."""
    source = read(position.file)
    node = source and source.node(position)
    return source.segment(node) if node is not None else Path(position.file).name
