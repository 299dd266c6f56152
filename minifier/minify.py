"""`minify`: from a failing program to a script of a few lines."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fullgraph.compiler.display import progress_line
from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.isolation import Emit, process_with_own_memory, run_isolated
from fullgraph.compiler.ladder import Backend, Rung
from fullgraph.compiler.private import GraphLevel
from fullgraph.compiler.results import Loss
from fullgraph.minifier.bisect.bisect import SandboxOptions, make_case, run_where_forks_are_safe
from fullgraph.minifier.emit.program_text import Unwritable
from fullgraph.minifier.extract.call_site import text_of_call
from fullgraph.minifier.minified import Minified
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.identity import reduction_id
from fullgraph.minifier.oracle.journal import Journal
from fullgraph.minifier.oracle.oracle import Oracle
from fullgraph.minifier.oracle.sandbox import SECONDS
from fullgraph.minifier.reduce.reduction import Reduction
from fullgraph.minifier.rungs.bisection import Bisection
from fullgraph.minifier.rungs.ladder_run import expect_failure, run_ladder, rung_of
from fullgraph.minifier.script_stages import make_minified

_SMALL, _PAUSE = 60, 3.0
"""A script is shown on the way if it has at most so many operators or lines, so often (seconds)."""


@dataclass(frozen=True)
class Progress:
    """State of a running reduction."""

    phase: str
    """ "bisect", "graph", "inputs", "modules", "source", "script"."""
    before: int
    now: int
    """Size at the start and now: operators, or lines of source."""
    calls: int
    cached: int
    text: str = ""
    """The best script so far; "" if it has not changed."""

    def __str__(self) -> str:
        size = f"{self.before} → {self.now}, " if self.before else ""
        return f"{self.phase}: {size}{self.calls} tried, {self.cached} known"


def minify(
    model: Callable[..., Any],
    inputs: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
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
    """Find the smallest program that fails as `model(inputs)` does, and write it as a standalone
    script.

    Args:
        model, inputs, kwargs, loss, dynamic, mode, options, backend, tol, check_strides, kind,
            seconds, memory: as `bisect` takes them.
        repro_after: "dynamo" reduces Dynamo's graph, "aot" AOTAutograd's; either is tried if it
            is not given, the first that fails alone is reduced.
        budget: wall time in seconds; when it is over, the best so far is the result.
        jobs: how many candidates are tried at a time; as many as there are cores.
        out: where the script is written; a fresh temporary folder if not given.
        source: a Python text with a `build()` that returns (model, inputs), to be reduced where
            no graph shows the failure; if not given, made from the live program, or else from the
            file of the caller.
        progress: told how far it is.

    Everything runs in forked processes, as with `bisect`; nothing here changes. What was found out
    is kept in a file beside the script until it is done, so that the same call goes on where it was
    stopped. Raises FullgraphError for arguments that cannot be called; a program that fails in
    eager, not at all or only sometimes gives a result that is `refused`. KeyboardInterrupt has the
    best so far as `partial`.
    """
    case, rungs = make_case(
        model,
        inputs,
        kwargs=kwargs,
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
    name = reduction_id(case, rungs)
    best = [""]

    def on_message(message: object) -> None:
        """Record the best script so far, and report progress."""
        if isinstance(message, Progress):
            best[0] = message.text or best[0]
            show(f"Minifying: {message}")
            progress(message)

    with _save_best_on_error(path, best), progress_line("Minifying …") as show:
        found = run_where_forks_are_safe(
            _minify_case,
            case,
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
        return found
    _write_atomically(path, found.text)
    return replace(found, path=path)


def _minify_case(
    case: Case,
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
    """Minify in a process where forking is safe; `place` is the journal's path and name.

    `log` is the file for tracebacks of reducers that fail, `call_text` the program as the user's
    file makes it."""
    journal = Journal(*place)
    with closing(journal), options.sandbox() as sandbox:
        oracle = Oracle(sandbox, journal, deadline=deadline)
        on_message(Progress("bisect", 0, 0, 0, 0))
        found = run_ladder(case, rungs, oracle, stop_at_dynamo=True)
        result = Minified(found, calls=oracle.counts.calls)
        if found.failure is not None:
            expect_failure(found, oracle)
            rung = rung_of(rungs, found.failure)
            sandbox.load(rungs[: rungs.index(rung) + 1])
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
    """Run the reduction, in a child process unless this process is a child already."""

    def job(emit: Emit) -> Minified:
        """Reduce, and send the progress to the parent."""
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
    """Sender of a reduction's progress, now and then with the best script so far."""

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
    """Return where to write the script: `out`, or `repro.py` in `out` or a temporary folder."""
    if out is None:
        return Path(tempfile.mkdtemp(prefix="fullgraph-")) / "repro.py"
    path = Path(out)
    if path.is_dir():
        path = path / "repro.py"
    if not path.parent.is_dir():
        raise FullgraphError(f"There is no folder {path.parent} to write {path.name} to: make it.")
    return path


def _journal_path(path: Path, chosen: bool, name: str) -> Path:
    """Return the path of the journal.

    It is beside a script with a given path, else in the temporary folder under a name that the same
    call finds again.
    """
    if chosen:
        return path.with_suffix(".journal")
    return Path(tempfile.gettempdir()) / f"fullgraph-minify-{os.getuid()}-{name}.journal"


@contextmanager
def _save_best_on_error(path: Path, best: list[str]) -> Iterator[None]:
    """Write the best script so far if an exception ends the block."""
    try:
        yield
    except BaseException:
        if best[0]:
            _write_atomically(path, best[0])
        raise


def _write_atomically(path: Path, text: str) -> None:
    """Write a file atomically."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.replace(path)


__all__ = ["Bisection", "Minified", "Progress", "minify"]
