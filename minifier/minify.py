"""`minify`: from a failing program to a script of a few lines."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.isolation import has_fork_server, process_with_own_memory, run_isolated
from fullgraph.compiler.ladder import Backend, Rung
from fullgraph.compiler.private import GraphLevel
from fullgraph.compiler.results import Loss
from fullgraph.minifier.bisect.bisect import SandboxOptions, make_case, run_where_forks_are_safe
from fullgraph.minifier.minified import Minified
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.identity import identity
from fullgraph.minifier.oracle.journal import Journal
from fullgraph.minifier.oracle.progress import Progress
from fullgraph.minifier.oracle.sandbox import SECONDS, JournaledSandbox
from fullgraph.minifier.reduce.reduction import Reduction, UnexpectedFailure
from fullgraph.minifier.rungs.bisection import Bisection
from fullgraph.minifier.rungs.ladder_run import LadderRun, retry_with_threads, rung_of
from fullgraph.minifier.script_stages import minified


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
    """The smallest program that fails as `model(inputs)` does, as a script that stands alone.

    Args:
        model, inputs, kwargs, loss, dynamic, mode, options, backend, tol, check_strides, kind,
            seconds, memory: as `bisect` takes them.
        repro_after: "dynamo" reduces Dynamo's graph, "aot" AOTAutograd's; either is tried if it
            is not given, the first that fails alone is reduced.
        budget: wall time in seconds; when it is over, the best so far is the result.
        jobs: how many candidates are tried at a time; as many as there are cores.
        out: where the script is written; a fresh temporary folder if not given.
        source: a Python text with a `build()` that returns (model, inputs), to be reduced where
            no graph shows the failure; made from the live program if not given.
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
    path = _path(out)
    name = identity(case, rungs)
    best = [""]

    def hear(message: object) -> None:
        if isinstance(message, Progress):
            best[0] = message.text or best[0]
            progress(message)

    with _save_best_on_error(path, best):
        found = run_where_forks_are_safe(
            _minified,
            case,
            rungs,
            "minify",
            hear,
            place=(_journal(path, out is not None, name), name),
            shop=SandboxOptions(seconds, memory, jobs),
            deadline=None if budget is None else start + budget,
            repro_after=repro_after,
            source=source,
        )
    found = replace(found, seconds=time.monotonic() - start)
    if not found.text:
        return found
    _write(path, found.text)
    return replace(found, path=path)


def _minified(
    case: Case,
    rungs: tuple[Rung, ...],
    hear: Callable[[object], None],
    *,
    place: tuple[Path, str],
    shop: SandboxOptions,
    deadline: float | None,
    repro_after: GraphLevel | None,
    source: str | None,
) -> Minified:
    """Minify in a process where forking is safe; `place` is the journal's path and name."""
    journal = Journal(*place)

    def work(rung: Rung, bisection: Callable[[], Bisection]) -> Reduction:
        work = Reduction(case, rungs, rung, bisection, sandbox, journal, seconds=shop.seconds)
        work.deadline = deadline
        work.levels = (repro_after,) if repro_after else work.levels
        return work

    with closing(journal), shop.sandbox() as sandbox:
        hear(Progress("bisect", 0, 0, 0, 0))
        tries = JournaledSandbox(sandbox, journal, "bisect")
        climb = LadderRun(case, rungs, tries)
        found = None
        last = climb.last  # before the climb goes on
        if last is not None and not has_fork_server():  # its graph is looked at meanwhile
            coming = _PendingBisection(climb)
            ahead = work(last, coming)
            ahead.late = coming.late
            found = _reduced(ahead, source, hear)
        if found is None:
            known = retry_with_threads(climb.bisection, case, rungs, tries)
            found = Minified(known, calls=sandbox.calls)
            if known.failure is not None:
                sandbox.load(rungs)
                rung = rung_of(rungs, known.failure)
                found = _reduced(work(rung, lambda: known), source, hear) or found
        journal.finish()
    return found


def _reduced(
    work: Reduction, source: str | None, hear: Callable[[object], None]
) -> Minified | None:
    """Return the result of a reduction, run in a process of its own unless this is one.

    None if another rung than the expected one fails."""

    def job(say: Callable[[object], None]) -> Minified | None:
        work.say = say
        try:
            return minified(work, source)
        except UnexpectedFailure:
            return None
        finally:
            work.sandbox.stop()

    outcome = run_isolated(job, where=process_with_own_memory(), on_message=hear)
    if outcome.status == "ok":
        return outcome.value
    error = outcome.error
    said = error.traceback or error.message if error else outcome.status
    raise FullgraphError(
        f"minify itself ended with {said}: this is a bug of fullgraph, and what was found out is "
        f"kept in {work.journal.path}."
    )


class _PendingBisection:
    """Result of a ladder run that continues here, for a process that was forked from this one."""

    def __init__(self, climb: LadderRun) -> None:
        self._reader, self._writer = Pipe(duplex=False)
        self._climb = climb
        self._heard: list[Bisection | None] = []
        threading.Thread(target=self._send, daemon=True).start()

    def _send(self) -> None:
        found = None
        with self._writer, suppress(BrokenPipeError):
            with suppress(Exception):  # raised again where it is asked for
                found = self._climb.bisection
            self._writer.send(found)

    def late(self) -> bool:
        """Return whether the result is still pending."""
        return not self._heard and not self._reader.poll()

    def __call__(self) -> Bisection:
        """Wait for the result. Raises UnexpectedFailure if there is none."""
        if not self._heard:
            self._heard.append(self._reader.recv())
        (found,) = self._heard
        if found is None:
            raise UnexpectedFailure
        return found


def _path(out: str | os.PathLike[str] | None) -> Path:
    if out is None:
        return Path(tempfile.mkdtemp(prefix="fullgraph-")) / "repro.py"
    path = Path(out)
    if path.is_dir():
        path = path / "repro.py"
    if not path.parent.is_dir():
        raise FullgraphError(f"There is no folder {path.parent} to write {path.name} to: make it.")
    return path


def _journal(path: Path, chosen: bool, name: str) -> Path:
    """Return the journal's path.

    Beside a script with a given path, else in the temporary folder under a name that the same call
    finds again."""
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
            _write(path, best[0])
        raise


def _write(path: Path, text: str) -> None:
    """Write a file atomically."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.replace(path)


__all__ = ["Bisection", "Minified", "Progress", "minify"]
