"""Outcome of a script with each backend, in the words of an issue."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping, Sequence

from fullgraph.compiler.isolation import Emit, JobOutcome, begin_isolated
from fullgraph.minifier.oracle.failure import failure_of_exception
from fullgraph.minifier.oracle.sandbox import BUSY
from fullgraph.minifier.repro.forked_script import execute_script
from fullgraph.minifier.repro.fresh_interpreter import asserts_itself

NOT_COMPILED = "not compiled"
PASSES = "passes"
DIFFERS = "fails: differs from eager"
NOT_RUN = "not run"


def find_outcomes(
    text: str,
    backends: Sequence[str | None],
    *,
    seconds: float,
    cache: str | None = None,
    jobs: int = 1,
) -> Mapping[str, str]:
    """Return what a script does with each backend: {'backend="eager"': "passes", …}.

    Other outcomes begin with "fails: ". The backend None, with the key "not compiled", is no
    compilation. Each run has a forked child, and `jobs` run at a time, each for at most `seconds`.
    `cache` is the folder for Inductor's output.
    """
    found: dict[str, str] = {}
    for start in range(0, len(backends), jobs):
        group = backends[start : start + jobs]
        waiting = [(words_for(one), _begin(text, one, seconds, cache)) for one in group]
        found |= {words: wait() for words, wait in waiting}
    return found


def words_for(backend: str | None) -> str:
    """Return the argument of `torch.compile` for a backend: `backend="eager"` for "eager".

    Returns "not compiled" for None.
    """
    return NOT_COMPILED if backend is None else f'backend="{backend}"'


def _begin(text: str, backend: str | None, seconds: float, cache: str | None) -> Callable[[], str]:
    """Start a run of a script with one backend, in a child; return a function that waits for it.

    That function returns the outcome in words: "passes", "fails: KeyError: 3". The run is ended
    after `seconds`. `cache` is the folder for Inductor's output.
    """
    folder = tempfile.TemporaryDirectory(prefix="repro-", ignore_cleanup_errors=True)
    job = functools.partial(_run_in_child, text, folder.name, backend)
    wait = begin_isolated(job, seconds=seconds, cache=cache)

    def finish() -> str:
        """Return the outcome in words."""
        with folder:
            return _words_of(wait())

    return finish


def _run_in_child(text: str, folder: str, backend: str | None, emit: Emit) -> None:
    """Execute a script in this process, a forked child; emit words for its exception, if any.

    `folder` is its working directory; a `backend` of None disables compilation.
    """
    try:
        execute_script(text, folder, backend)
    except Exception as error:
        failure = failure_of_exception(backend or "", error)
        differs = asserts_itself(failure.signature[0], failure.details)
        line = failure.message.strip().partition("\n")[0]
        emit(DIFFERS if differs else f"fails: {line}")


def _words_of(outcome: JobOutcome[None]) -> str:
    """Return what a script did, "passes" or "fails: …", from how its child process ended."""
    if outcome.messages:
        return str(outcome.messages[0])
    match outcome.status:
        case "ok":
            return PASSES
        case "signal":
            return f"fails: the process dies of {outcome.signal}"
        case "timeout":
            if outcome.waiting > BUSY:
                return f"not finished within {outcome.seconds:.0f} s on a machine that was busy"
            return f"fails: it does not end within {outcome.seconds:.0f} s"
        case "memory":
            return "fails: it runs out of memory"
    return f"fails: {outcome.error.type if outcome.error else outcome.status}"
