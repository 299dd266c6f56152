"""Runs an unmodified script under the recorder."""

from __future__ import annotations

import os
import runpy
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from fullgraph.compiler.errors import FullgraphError
from fullgraph.diagnose.explanation import Explanation
from fullgraph.waiting import announce


def run(
    script: str,
    args: Sequence[str],
    report: Callable[[Explanation], object],
    module: bool = False,
    rank: str = "",
) -> int:
    """Run `script` as `python script args…` does, and pass its explanation to `report`.

    With `module`, run it as `python -m script args…` does. The report names the `rank`, such as
    "1 of 4". Returns the exit code of the script: 1 for an uncaught exception (its traceback is
    printed), 130 for Ctrl-C, 143 for SIGTERM. `report` is called in all these cases. Raises
    FullgraphError if the script does not exist.
    """
    folder = os.getcwd() if module else str(Path(script).resolve().parent)
    package = script.partition(".")[0]
    if module and not (PathFinder.find_spec(package, [folder]) or find_spec(package)):
        raise FullgraphError(
            f"There is no module {script}: `python -m` does not find it from {folder}."
        )
    if not module and not Path(script).is_file():
        raise FullgraphError(f"There is no file {script}: give the path of a Python script.")
    name = f"{script if module else Path(script).name}{f' (rank {rank})' if rank else ''}"
    with announce("importing torch", quiet="torch" in sys.modules):
        from fullgraph.compiler.private import observe_compiled_calls
        from fullgraph.compiler.recording import record
        from fullgraph.diagnose.explain import explain_recording
        from fullgraph.rewrites.fix.edits import offer_recompile_edits
        from fullgraph.script_notes import (
            LineSampler,
            describe_compiled,
            describe_outside,
            verdict_of,
        )

    before = sys.argv, sys.path[0], signal.getsignal(signal.SIGTERM)
    sys.argv, sys.path[0] = [script, *args], folder
    signal.signal(signal.SIGTERM, _raise_exit)
    error = None
    with (
        record() as recorder,
        observe_compiled_calls(lambda: recorder.event_count) as seen,
        LineSampler(seen) as sampler,
    ):
        try:
            if module:
                runpy.run_module(script, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(script, run_name="__main__")
            code = 0
        except SystemExit as stop:
            code = _exit_code(stop)
        except KeyboardInterrupt:
            code, error = 130, f"{name} was interrupted; this is what was seen until then."
        except BaseException as failure:
            code = 1
            error = f"{name} raised {type(failure).__name__}; this is what was seen until then."
            _print_traceback(failure)
        finally:
            sys.argv, sys.path[0] = before[:2]
            signal.signal(signal.SIGTERM, before[2] or signal.SIG_DFL)
        outside = tuple(describe_outside(seen, sampler))
    sys.stdout.flush()
    recording = recorder.recording
    explanation = explain_recording(recording, name, error)
    if error is None:
        explanation = replace(explanation, verdict=verdict_of(explanation, seen, recording))
    explanation = offer_recompile_edits(explanation)
    notes = (*describe_compiled(seen, recording), *outside, *explanation.notes)
    report(replace(explanation, notes=notes))
    return code


def _raise_exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _exit_code(stop: SystemExit) -> int:
    """Return the exit code of a SystemExit; print its message, if it has one, to stderr."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code
    print(stop.code, file=sys.stderr)
    return 1


def _print_traceback(failure: BaseException) -> None:
    """Print the traceback of `failure` without the frames that ran the script."""
    step = failure.__traceback__
    ours = (__file__, runpy.__file__, "<frozen runpy>")
    while step is not None and step.tb_frame.f_code.co_filename in ours:
        step = step.tb_next
    traceback.print_exception(type(failure), failure, step)
