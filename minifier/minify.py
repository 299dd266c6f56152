"""`minify`: from a failing program to a script of a few lines."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fullgraph.compiler.display import progress_line
from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.isolation import Emit, process_with_own_memory, run_isolated
from fullgraph.compiler.ladder import Backend, Rung
from fullgraph.compiler.private import GraphLevel
from fullgraph.compiler.results import Loss
from fullgraph.minifier.bisect.bisect import SandboxOptions, make_cases, run_where_forks_are_safe
from fullgraph.minifier.emit.program_text import Unwritable
from fullgraph.minifier.extract.call_site import text_of_call
from fullgraph.minifier.minified import Minified
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.identity import reduction_id
from fullgraph.minifier.oracle.journal import Journal
from fullgraph.minifier.oracle.oracle import Oracle
from fullgraph.minifier.oracle.sandbox import SECONDS
from fullgraph.minifier.rungs.bisection import Bisection
from fullgraph.minifier.rungs.ladder_run import expect_failure, find_failing_call, rung_of

if TYPE_CHECKING:
    from fullgraph.minifier.reduce.reduction import Reduction

_SMALL, _PAUSE = 400, 1.0
"""Largest size of a program that is shown as a script, and seconds between two scripts."""


@dataclass(frozen=True)
class Progress:
    """State of a running reduction, as `minify` passes it to its argument `progress`."""

    phase: str
    """"bisect", "graph", "inputs", "modules", "source" or "script"."""
    before: int
    now: int
    """Size of the program before the reduction and now: operators, or lines of source."""
    calls: int
    """Number of programs that ran."""
    cached: int
    """Number of verdicts that were already known."""
    text: str = ""
    """The smallest script so far; "" if none was written since the last message."""

    def __str__(self) -> str:
        size = f"{self.before} → {self.now}, " if self.before else ""
        return f"{self.phase}: {size}{self.calls} tried, {self.cached} known"


def minify(
    model: Callable[..., Any],
    inputs: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    calls: Sequence[object] = (),
    loss: Loss = None,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    backend: Backend = "inductor",
    tol: float | None = None,
    check_strides: bool = True,
    kind: str | None = None,
    repro_after: GraphLevel | None = None,
    budget: float | None = None,
    jobs: int | None = None,
    seconds: float = SECONDS,
    memory: float | None = None,
    out: str | os.PathLike[str] | None = None,
    source: str | None = None,
    progress: Callable[[Progress], object] = lambda _: None,
) -> Minified:
    """Find the smallest program that fails like `model(inputs)`, and write it as a script.

    Args:
        model, inputs, kwargs, calls, loss: as `bisect` takes them.
        dynamic, mode, options, backend: as `bisect` takes them.
        tol, check_strides, kind, seconds, memory: as `bisect` takes them.
        repro_after: the graph to reduce: "dynamo" for Dynamo's, "aot" for AOTAutograd's; if not
            given, the first of them that fails alone.
        budget: wall time in seconds; when it is spent, the smallest program so far is the result.
        jobs: number of candidates that run at a time; one per core if not given.
        out: file or folder for the script; a new temporary folder if not given.
        source: Python text with a `build()` that returns (model, inputs), which is reduced if no
            graph shows the failure; if not given, it is extracted from the live program, or else
            taken from the file that calls `minify`.
        progress: called often, with the current state of the reduction.

    Everything runs in forked children, as in `bisect`, so nothing changes in this process. Until
    the reduction is complete, its verdicts are kept in a journal beside the script; if it is
    interrupted, the same call resumes from them, and the smallest script so far is in its file.

    Raises FullgraphError if the model cannot be called with the inputs. If the model fails in
    eager, does not fail, or fails only sometimes, `refused` of the result says so in a sentence.
    If the user interrupts it, the smallest program so far is in the script's file.
    """
    cases, rungs = make_cases(
        model,
        inputs,
        kwargs=kwargs,
        calls=calls,
        loss=loss,
        dynamic=dynamic,
        mode=mode,
        options=options,
        backend=backend,
        tol=tol,
        check_strides=check_strides,
        kind=kind,
        command="minify",
    )
    start = time.monotonic()
    call_text = text_of_call(sys._getframe(1)) if source is None else None
    path = _script_path(out)
    name = reduction_id(cases[-1], rungs)
    has_script, before = False, path.read_bytes() if path.exists() else None

    def on_message(message: object) -> None:
        """Write the smallest script so far, and report the progress."""
        nonlocal has_script
        if isinstance(message, Progress):
            if message.text:
                _write_atomically(path, message.text)
                has_script = True
            show(f"Minifying: {message}{f'; so far in {path}' if has_script else ''}")
            progress(message)

    with progress_line("Minifying …") as show:
        found = run_where_forks_are_safe(
            _minify_cases,
            cases,
            rungs,
            "minify",
            on_message,
            place=(_journal_path(path, out is not None, name), name),
            log=path.with_suffix(".log"),
            options=SandboxOptions(seconds, memory, jobs),
            deadline=None if budget is None else start + budget,
            repro_after=repro_after,
            source=source,
            call_text=call_text,
        )
    found = replace(found, seconds=time.monotonic() - start)
    if not found.text:
        if has_script and before is None:
            path.unlink()  # what fails only sometimes has no script
        elif has_script and before is not None:
            path.write_bytes(before)
        return found
    _write_atomically(path, found.text)
    return replace(found, path=path)


def _minify_cases(
    cases: tuple[Case, ...],
    rungs: tuple[Rung, ...],
    on_message: Emit,
    *,
    place: tuple[Path, str],
    log: Path,
    options: SandboxOptions,
    deadline: float | None,
    repro_after: GraphLevel | None,
    source: str | None,
    call_text: str | None,
) -> Minified:
    """Find the first failing call and rung, reduce the program, and return the result.

    This process must be safe to fork. `place` is the path of the journal and the id of the
    reduction, `log` the file for tracebacks of reducers that fail, `deadline` is in
    `time.monotonic` seconds. `source` is the program's source code if the user gave it, `call_text`
    the source code from the file that calls `minify`; each is None if there is none.
    """
    journal = Journal(*place)
    with closing(journal), options.sandbox() as sandbox:
        oracle = Oracle(sandbox, journal, deadline=deadline)
        on_message(Progress("bisect", 0, 0, 0, 0))
        case, found = find_failing_call(cases, rungs, oracle, stop_at_dynamo=True)
        result = Minified(found, calls=oracle.counts.calls)
        if found.failure is not None:
            expect_failure(found, oracle)
            rung = rung_of(rungs, found.failure)
            sandbox.load(rungs[: rungs.index(rung) + 1])
            from fullgraph.minifier.reduce.reduction import Reduction  # loads all reducers

            reduction = Reduction(
                case,
                rungs,
                rung,
                oracle,
                seconds=options.seconds,
                call_text=call_text,
                log=log,
            )
            if repro_after:
                reduction = replace(reduction, levels=(repro_after,))
            result = _run_reduction(reduction, found, source, on_message, journal.path)
        journal.finish()
    return result


def _run_reduction(
    reduction: Reduction, found: Bisection, source: str | None, on_message: Emit, kept: Path
) -> Minified:
    """Run the reduction, in a child unless this process is a child already; return the result.

    `source` is the program's source code if the user gave it. `kept` is the path of the journal,
    for the message of the FullgraphError that is raised if the reduction itself fails.
    """

    from fullgraph.minifier.script_stages import make_minified

    def job(emit: Emit) -> Minified:
        """Return the result; send the progress to the parent process."""
        reporter = _Reporter(reduction.oracle, emit)
        try:
            return make_minified(replace(reduction, on_progress=reporter), found, source)
        finally:
            reduction.oracle.sandbox.stop()

    outcome = run_isolated(job, where=process_with_own_memory(), on_message=on_message)
    if outcome.status == "ok" and outcome.value is not None:
        return outcome.value
    error = outcome.error
    ending = f"{error.type}: {error.message}".partition("\n")[0] if error else outcome.status
    where = f"kept in {kept}"
    if error and error.traceback and reduction.log is not None:
        with reduction.log.open("a") as file:
            file.write(f"minify:\n{error.traceback}\n")
        where += f", the traceback in {reduction.log}"
    raise FullgraphError(
        f"minify itself ended with {ending}: this is a bug of fullgraph, and what was found out is "
        f"{where}."
    )


class _Reporter:
    """Callback that passes a reduction's progress to `emit`, at times with the smallest script."""

    def __init__(self, oracle: Oracle, emit: Emit) -> None:
        self._counts, self._emit = oracle.counts, emit
        self._written = 0.0

    def __call__(
        self, phase: str, before: int, now: int, write: Callable[[], str] | None = None
    ) -> None:
        text = ""
        due = now <= _SMALL and time.monotonic() > self._written + _PAUSE
        if write is not None and (due or phase == "script"):
            with suppress(Unwritable):
                text = write()
            self._written = time.monotonic()
        self._emit(Progress(phase, before, now, self._counts.calls, self._counts.cached, text))


def _script_path(out: str | os.PathLike[str] | None) -> Path:
    """Return the script's file: `out`, or `repro.py` in the folder `out`, or in a new folder.

    Raises FullgraphError if the folder of the file does not exist.
    """
    if out is None:
        return Path(tempfile.mkdtemp(prefix="fullgraph-")) / "repro.py"
    path = Path(out)
    if path.is_dir():
        path = path / "repro.py"
    if not path.parent.is_dir():
        raise FullgraphError(f"There is no folder {path.parent} to write {path.name} to: make it.")
    return path


def _journal_path(path: Path, chosen: bool, name: str) -> Path:
    """Return the file from which an interrupted `minify` resumes.

    If the user named the script's file, `path`, then `chosen` is True, and the journal is beside
    it. Otherwise it is in the temporary folder. Its file name contains `name`, the id of the
    reduction, so that the same call finds it again.
    """
    if chosen:
        return path.with_suffix(".journal")
    return Path(tempfile.gettempdir()) / f"fullgraph-minify-{os.getuid()}-{name}.journal"


def _write_atomically(path: Path, text: str) -> None:
    """Write a file so that other processes see its old text or all of `text`, never a part."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.replace(path)


__all__ = ["Bisection", "Minified", "Progress", "minify"]
