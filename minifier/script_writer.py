"""Writer of the script of a failure: simplifies, checks and runs it with every backend."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from fullgraph.compiler.isolation import (
    compiler_environment,
    run_isolated,
)
from fullgraph.compiler.private import count_aten_calls, is_local_backend, non_default_config
from fullgraph.minifier.emit.program_text import ProgramText, Unwritable
from fullgraph.minifier.oracle.candidate import Candidate
from fullgraph.minifier.oracle.failure import Kind
from fullgraph.minifier.oracle.identity import digest
from fullgraph.minifier.reduce.reduction import Reduction
from fullgraph.minifier.reduce.stages import (
    capture_graphs,
)
from fullgraph.minifier.repro import fresh_interpreter as fresh
from fullgraph.minifier.repro import script as repro
from fullgraph.minifier.repro.backend_outcomes import NOT_RUN, find_outcomes, words_for
from fullgraph.minifier.repro.config_statements import register_backend, sources_beside
from fullgraph.minifier.repro.script_check import ScriptCheck, check_of, replace_comment
from fullgraph.minifier.rungs.culprit import Culprit, find_culprit
from fullgraph.minifier.rungs.ladder_run import run_again
from fullgraph.minifier.simplify import (
    ScriptProblem,
    begin_trial,
    format_script,
    simplify_script,
)

START = 120.0
"""Seconds that an interpreter may take before the call that fails."""
SIMPLIFY = 120.0
"""Time limit, in seconds, of simplifying a script."""


@dataclass(frozen=True)
class DraftScript:
    """A script with its check, its sizes, and the outcomes of its runs."""

    text: str
    check: ScriptCheck
    before: int
    """Size of the program before the reduction, in `unit`."""
    standing: fresh.StandaloneCheck
    """Whether it fails in a fresh interpreter and passes its controls."""
    culprit: Culprit | None
    """The faulty part of the rung; None if it was not found."""
    sizes: tuple[int, int]
    """Number of calls in the program's Dynamo graphs, and in its ATen graphs."""
    unit: str = "operators"
    """The unit of `before`."""
    outcomes: Mapping[str, str] = field(default_factory=dict)
    """The script's outcome by backend."""


class ScriptWriter:
    """Writer of scripts for programs that show the failure of one reduction."""

    def __init__(self, reduction: Reduction) -> None:
        self._reduction, self._rung = reduction, reduction.rung
        self._oracle, self._failure = reduction.oracle, reduction.oracle.expected
        self._changed = non_default_config()
        self.backward = bool(reduction.case.loss)
        """Whether the script calls `backward`."""
        backend = self._rung.backend
        self._known = isinstance(backend, str) and not is_local_backend(backend)
        """Whether every process finds the backend by its name."""
        self._backend = backend if isinstance(backend, str) else self._rung.name
        is_harmless = self._failure.kind is not Kind.MEMORY  # the script would take all there is
        self._function = backend if is_harmless and not isinstance(backend, str) else None
        """The backend if it is a function with source, which the script registers."""
        if self._function is not None:
            try:
                register_backend(self._backend, self._function, sources_beside(ProgramText("", "")))
            except Unwritable:
                self._function = None
        self._named = self._known or self._function is not None

    def script(
        self, parts: ProgramText, needed: Iterable[str] | None = None
    ) -> tuple[str, ScriptCheck]:
        """Return a script of a program, and what it checks.

        The script assigns the settings `needed`; None: all settings that are not torch's defaults.
        """
        case, rung, failure = self._reduction.case, self._rung, self._failure
        sandbox = self._oracle.sandbox
        if sandbox.threads > 1:
            prelude = f"torch.set_num_threads({sandbox.threads})\n{parts.prelude}"
            parts = replace(parts, prelude=prelude)
        check = check_of(
            failure,
            tol=case.tol,
            backward=self.backward,
            limit=sandbox.seconds if failure.kind is Kind.HANG else 0.0,
            calls=case.calls,
        )
        text = repro.script(
            parts,
            check,
            backend=self._backend,
            dynamic=case.dynamic,
            fullgraph=rung.fullgraph,
            mode=rung.mode,
            options=rung.options,
            register=self._function,
            settings={
                name: value
                for name, value in self._changed.items()
                if needed is None or name in needed
            },
        )
        return text, check

    def draft(
        self, parts: ProgramText, needed: Iterable[str], candidate: Candidate, before: int
    ) -> DraftScript:
        """Return the final script of `candidate`: simplified, and checked in fresh interpreters.

        `before` is the size of the program before the reduction.
        """
        last = [report.failure for report in run_again(candidate, self._oracle)]
        steady = all(self._failure.same(failure) for failure in last)
        if steady and last[0] is not None:
            self._failure = last[0]
        text, check = self.script(parts, needed)
        self._reduction.on_progress("script", before, before, lambda: text)
        with ThreadPoolExecutor(1) as pool:
            text, check, standing = self._settle(text, check, pool, steady)
            if standing.fails_control:
                seconds = self._oracle.sandbox.seconds
                for other in self._independent_scripts(parts, needed):
                    if fresh.passes_controls(other, seconds):
                        found = self._settle(other, check, pool, steady)
                        if found[-1].ok:
                            text, check, standing = found
                        break
        part = find_culprit(candidate, self._oracle) if steady else None
        sizes = _count_calls(candidate)
        outcomes = self._run_on_backends(text, check)
        if standing.ok and not steady:
            reason = f"It fails only sometimes: {self._failure}, but not in {len(last)} tries."
            standing = replace(standing, ok=False, reason=reason)
        return DraftScript(text, check, before, standing, part, sizes, outcomes=outcomes)

    def _settle(
        self, text: str, check: ScriptCheck, pool: ThreadPoolExecutor, steady: bool
    ) -> tuple[str, ScriptCheck, fresh.StandaloneCheck]:
        """Return a script simplified, what it checks, and whether it is standalone.

        If only the original script is standalone, return that. It is not simplified unless
        `steady`: the failure occurs in every run.
        """
        short, shown = self._simplify(text, check) if steady else (text, check)
        short = format_script(short)
        standing = self._begin_standalone_check(short, shown, pool).result()
        if standing.ok or not standing.tried or shown is check:
            return short, shown, standing
        text = format_script(text)
        return text, check, self._begin_standalone_check(text, check, pool).result()

    def _run_on_backends(self, text: str, check: ScriptCheck) -> Mapping[str, str]:
        """Return the script's outcome with each backend that a script can name.

        Inductor is not loaded in this process if only rungs above the failing one need it.
        """
        if not self._known or check.kind in (Kind.HANG, Kind.MEMORY, Kind.SLOW):
            return {}
        names = dict.fromkeys(
            rung.backend
            for rung in self._reduction.rungs
            if isinstance(rung.backend, str) and not is_local_backend(rung.backend)
        )
        place, sandbox = [*names].index(self._backend) + 1, self._oracle.sandbox
        run = functools.partial(find_outcomes, text, seconds=sandbox.seconds, jobs=sandbox.jobs)
        found = run([None, *[*names][:place]], cache=sandbox.load([self._rung]))
        above = [*names][place:]
        if self._oracle.is_out_of_budget():
            return {**found, **dict.fromkeys(map(words_for, above), NOT_RUN)}
        return {**found, **run(above, seconds=START)}

    def _simplify(self, text: str, check: ScriptCheck) -> tuple[str, ScriptCheck]:
        """Return the script as a person would write it, and its check with the values it shows."""
        if not self._named or check.kind in (Kind.HANG, Kind.MEMORY, Kind.SLOW):
            return text, check
        sandbox = self._oracle.sandbox
        cache = sandbox.load((self._rung,))
        trial = functools.partial(begin_trial, seconds=sandbox.seconds, cache=cache)
        start = trial(text, check, strict=False)()
        if start is None:
            return text, check
        shown = {text: start}

        def begin(candidate: str) -> Callable[[], bool]:
            """Start a trial of a text; return a function that waits for it."""
            wait = trial(candidate, start)

            def finish() -> bool:
                """Return whether the text shows the failure; keep the values that it shows."""
                found = wait()
                if found is not None:
                    shown[candidate] = found
                return found is not None

            return finish

        problem = ScriptProblem(text, begin, oracle=self._oracle, seconds=SIMPLIFY)
        simplify_script(problem)
        found = shown[problem.current]
        return replace_comment(problem.current, check, found), found

    def _independent_scripts(self, parts: ProgramText, needed: Iterable[str]) -> Iterator[str]:
        """Yield scripts whose eager and compiled calls share less and less.

        First the inputs are made for each call, then also under the same seed, then also the
        definitions.
        """
        for anew in (False, True):
            for random_inputs, random in ((False, False), (True, False), (True, True)):
                less = replace(
                    parts, mutates=True, random=random, random_inputs=random_inputs, anew=anew
                )
                yield self.script(less, needed)[0]

    def _begin_standalone_check(
        self, text: str, check: ScriptCheck, pool: ThreadPoolExecutor
    ) -> Future[fresh.StandaloneCheck]:
        """Start the check in fresh interpreters whether a script is standalone.

        Whether it passes in eager and one rung below is first checked in forks, which are faster.
        """
        sandbox = self._oracle.sandbox

        def begin() -> Future[fresh.StandaloneCheck]:
            """Submit the check to the thread pool."""
            return pool.submit(
                fresh.check_standalone,
                text,
                check,
                seconds=START + self._reduction.seconds,
                environment=compiler_environment(),
                passes_controls=fresh.passes_controls(text, sandbox.seconds),
                beside=sandbox.jobs > 1,
            )

        if self._named:
            return self._oracle.run_once(f"script {digest(text)}", begin)
        reason = (
            f"The backend {self._backend} is a function of this process: the script needs a "
            "line that registers it with torch._dynamo.register_backend."
        )
        return pool.submit(fresh.StandaloneCheck, False, reason, fresh.ScriptRun(None), tried=False)


def _count_calls(candidate: Candidate) -> tuple[int, int]:
    """Return (number of calls in a program's Dynamo graphs, number in its ATen graphs).

    0 for a number that could not be found.
    """
    jobs = [functools.partial(size, candidate) for size in (_count_dynamo_calls, _count_aten_calls)]
    found = [run_isolated(job, where="fork", seconds=60).value for job in jobs]
    return found[0] or 0, found[1] or 0


def _count_dynamo_calls(candidate: Candidate, _: object) -> int:
    return sum(graph.ops for graph in capture_graphs(candidate.case()))


def _count_aten_calls(candidate: Candidate, _: object) -> int:
    """Return the number of calls in the program's ATen graphs; runs in a child."""
    case = candidate.case()
    return count_aten_calls(case.target, case.args, case.kwargs, case.dynamic)
