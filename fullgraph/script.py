"""Runs an unmodified script under the recorder."""

from __future__ import annotations

import runpy
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

from fullgraph.compiler.errors import FullgraphError
from fullgraph.diagnose.explanation import Explanation
from fullgraph.waiting import announce


def run(script: str, args: Sequence[str], report: Callable[[Explanation], object]) -> int:
    """Run `script` as `python script args…` does, and pass its explanation to `report`.

    Returns the exit code of the script: 1 for an uncaught exception (its traceback is printed),
    130 for Ctrl-C, 143 for SIGTERM. `report` is called in all these cases. Raises FullgraphError if
    the script does not exist.
    """
    path = Path(script)
    if not path.is_file():
        raise FullgraphError(f"There is no file {script}: give the path of a Python script.")
    with announce("importing torch", quiet="torch" in sys.modules):
        from fullgraph.compiler.private import observe_compiled_calls
        from fullgraph.compiler.recording import record
        from fullgraph.diagnose.explain import explain_recording
        from fullgraph.script_notes import (
            LineSampler,
            describe_compiled,
            describe_outside,
            verdict_of,
        )

    before = sys.argv, sys.path[0], signal.getsignal(signal.SIGTERM)
    sys.argv, sys.path[0] = [script, *args], str(path.resolve().parent)
    signal.signal(signal.SIGTERM, _raise_exit)
    error = None
    with (
        record() as recorder,
        observe_compiled_calls(lambda: recorder.event_count) as seen,
        LineSampler(seen) as sampler,
    ):
        try:
            runpy.run_path(script, run_name="__main__")
            code = 0
        except SystemExit as stop:
            code = _exit_code(stop)
        except KeyboardInterrupt:
            code, error = 130, f"{path.name} was interrupted; this is what was seen until then."
        except BaseException as failure:
            code = 1
            error = (
                f"{path.name} raised {type(failure).__name__}; this is what was seen until then."
            )
            _print_traceback(failure)
        finally:
            sys.argv, sys.path[0] = before[:2]
            signal.signal(signal.SIGTERM, before[2] or signal.SIG_DFL)
        outside = tuple(describe_outside(seen, sampler))
    sys.stdout.flush()
    recording = recorder.recording
    explanation = explain_recording(recording, path.name, error)
    if error is None:
        verdict = verdict_of(path.name, seen, recording, explanation.verdict)
        explanation = replace(explanation, verdict=verdict)
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
