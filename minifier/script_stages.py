"""Stages from a failing program to the script that shows its failure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from fullgraph.compiler.isolation import (
    compiler_environment,
    has_drawn_random_numbers,
    random_states,
    run_isolated,
    snapshot,
)
from fullgraph.compiler.private import count_aten_calls, is_local_backend, non_default_config
from fullgraph.compiler.results import RecordedTensor, run_and_record, seed_generators
from fullgraph.minifier.emit.emit import source as written
from fullgraph.minifier.emit.program_text import ProgramText, Unwritable
from fullgraph.minifier.extract.extract import standalone
from fullgraph.minifier.minified import Minified
from fullgraph.minifier.oracle.candidate import Candidate, Report
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.failure import Kind
from fullgraph.minifier.oracle.identity import digest
from fullgraph.minifier.reduce.reduction import Reduction
from fullgraph.minifier.reduce.source.entry_point import load_module
from fullgraph.minifier.reduce.stages import (
    capture_graphs,
    case_of_text,
    find_smallest_graph,
    reduce_text,
    replace_modules_by_stubs,
    source_candidate,
    tolerate_errors,
)
from fullgraph.minifier.repro import fresh_interpreter as fresh
from fullgraph.minifier.repro import script as repro
from fullgraph.minifier.repro.backend_outcomes import find_outcomes
from fullgraph.minifier.repro.build_parts import UNKNOWN, ProgramFacts, program
from fullgraph.minifier.rungs.bisection import Bisection
from fullgraph.minifier.rungs.culprit import Culprit, find_culprit
from fullgraph.minifier.rungs.ladder_run import ReductionRefused, check_reproducible, run_again
from fullgraph.minifier.simplify import (
    ScriptProblem,
    begin_trial,
    format_script,
    simplify_script,
)

START = 120.0
"""Seconds that an interpreter may take before the failing call."""
_SEED = 1729
"""A seed that no program is likely to set, so that a program that sets one is seen to."""
SIMPLIFY = 120.0
"""Seconds for the simplification of a script's text."""


@dataclass(frozen=True)
class DraftScript:
    """A script, with its size and whether it is standalone."""

    text: str
    check: repro.ScriptCheck
    before: int
    standing: fresh.StandaloneCheck
    culprit: Culprit | None
    sizes: tuple[int, int]
    """Calls in Dynamo's graphs and in the ATen graphs."""
    unit: str = "operators"
    """The unit of `before`."""
    outcomes: Mapping[str, str] = field(default_factory=dict)
    """The script's outcome by backend."""


def make_minified(reduction: Reduction, found: Bisection, text: str | None) -> Minified:
    """Return the `Minified` of a failing program; `text` is its source, if known."""
    try:
        draft = _best_script(reduction, text)
    except ReductionRefused as error:
        found = replace(found, refused=str(error))
        return Minified(found, calls=reduction.oracle.counts.calls)
    return _with_draft(reduction, found, draft)


def _best_script(reduction: Reduction, text: str | None) -> DraftScript | None:
    """Return the first standalone script, from a graph or from source.

    Without one, return the first script that passes its controls: one that fails in eager, or one
    rung below, shows no failure of the compiler.
    """
    made: list[DraftScript] = []
    makers: list[Callable[[Reduction], DraftScript | None]] = [
        _script_from_graph,
        functools.partial(_script_from_source, text=text),
    ]
    if reduction.call_text is not None:
        makers.append(functools.partial(_script_from_text, text=reduction.call_text))
    start = len(reduction.notes)
    for make in makers:
        attempt = len(reduction.notes)
        try:
            draft = make(reduction)
        except Unwritable as error:
            reduction.notes.append(str(error))
            continue
        if draft is None:
            continue
        if draft.standing.ok:
            del reduction.notes[start:attempt]  # what was wrong with other scripts
            return draft
        reduction.notes.append(draft.standing.reason)
        if not draft.standing.tried:
            return draft
        made.append(draft)
    return next((draft for draft in made if not draft.standing.fails_control), None)


def _script_from_graph(reduction: Reduction) -> DraftScript | None:
    """Return the script of the smallest graph."""
    writer = _ScriptWriter(reduction)
    found = find_smallest_graph(
        replace(
            reduction, script_of=lambda graph: writer.script(written(graph.module, graph.inputs))[0]
        )
    )
    if found is None:
        return None
    writer.backward = bool(found.candidate.case().loss)
    parts = written(found.graph.module, found.graph.inputs)
    return writer.draft(parts, found.settings, found.candidate, found.before)


def _script_from_source(reduction: Reduction, text: str | None) -> DraftScript | None:
    """Return a script from the program's source, reduced; None if no source shows the failure."""
    check_reproducible(reduction.program, reduction.oracle.expected, reduction.oracle)
    before = _smaller_text(reduction) if text is None else None
    before = before or _failing_text(reduction, text)
    return None if before is None else _script_from_failing_text(reduction, before)


def _script_from_text(reduction: Reduction, text: str) -> DraftScript | None:
    """Return a script from a text, reduced; None if it does not show the failure."""
    check_reproducible(reduction.program, reduction.oracle.expected, reduction.oracle)
    report = _run_text(reduction, text)
    if reduction.oracle.expected.same(report.failure):
        return _script_from_failing_text(reduction, text)
    reduction.notes.append("The file that makes the program does not show the failure.")
    return None


def _script_from_failing_text(reduction: Reduction, before: str) -> DraftScript:
    """Return a script from source that shows the failure, reduced."""
    writer = _ScriptWriter(reduction)
    usual = ProgramFacts("tuple", False, False)
    after = reduce_text(
        replace(reduction, script_of=lambda text: writer.script(program(text, usual))[0]), before
    )
    candidate = source_candidate(reduction, after)
    parts = program(after, _run_for_facts(after, reduction.case))
    draft = writer.draft(parts, tuple(non_default_config()), candidate, repro.count_lines(before))
    return replace(draft, unit="lines")


def _smaller_text(reduction: Reduction) -> str | None:
    """Return the program's source with stubs for modules it does not need, if that still fails.

    Otherwise the program is restored.
    """
    notes, undo = list(reduction.notes), None
    with tolerate_errors(reduction, "modules"):
        undo = replace_modules_by_stubs(reduction)
    if undo is None:
        return None
    found = _failing_text(reduction, None)
    if found is None:
        undo()
        reduction.notes[:] = notes
    return found


def _failing_text(reduction: Reduction, text: str | None) -> str | None:
    """Return the program's source if it shows the failure; None otherwise.

    The known source, else extracted: first with drawn values, then with the exact ones.
    """
    case, oracle = reduction.case, reduction.oracle
    ending: object = "it does not fail"
    for exact in (None, False, True):
        try:
            found = text
            if exact is not None:
                found = standalone(case.target, case.args, case.kwargs, exact=exact)
        except Unwritable as error:
            ending = error
            continue
        except Exception as error:
            reduction.skip("live objects", error)
            continue
        if found is None:
            continue
        report = _run_text(reduction, found)
        if oracle.expected.same(report.failure):
            return found
        ending = report.broken or report.failure or ending
    reduction.notes.append(f"The source alone does not show the failure ({ending}).")
    return None


def _run_text(reduction: Reduction, text: str) -> Report:
    """Run a text on the failing rung alone."""
    candidate = replace(source_candidate(reduction, text), rungs=(reduction.rung,))
    return reduction.oracle.report(candidate).result()


def _run_for_facts(text: str, case: Case) -> ProgramFacts:
    """Run the source, and return facts about its inputs and outputs."""
    job = functools.partial(_facts_of_run, text, case)
    found = run_isolated(job, where="fork", seconds=60).value
    return found or UNKNOWN


def _facts_of_run(text: str, case: Case, _: object) -> ProgramFacts:
    """Run the source in this process, and return facts about its inputs and outputs."""
    module = load_module(text)
    inputs = module.build()[1] if hasattr(module, "build") else module.inputs
    seed_generators(_SEED)
    states = random_states()
    made = case_of_text(text, case)
    random_inputs = has_drawn_random_numbers(states)
    seed_generators(0)
    states, before = random_states(), snapshot(made.objects)
    found = run_and_record(made.target, made.args, made.kwargs, module=made.module).outputs
    form = "dict" if made.kwargs else "tuple" if type(inputs) is tuple else "one"
    aliases = [one.alias for one in found.values() if isinstance(one, RecordedTensor)]
    return ProgramFacts(
        form,
        isinstance(found.get("output"), RecordedTensor),
        has_drawn_random_numbers(states),
        before.has_changed() or any(name and not name.startswith("output") for name in aliases),
        random_inputs,
    )


class _ScriptWriter:
    """Writer of scripts for programs with one failure."""

    def __init__(self, reduction: Reduction) -> None:
        self._reduction, self._rung = reduction, reduction.rung
        self._oracle, self._failure = reduction.oracle, reduction.oracle.expected
        self._changed = non_default_config()
        self.backward = bool(reduction.case.loss)
        backend = self._rung.backend
        self._named = isinstance(backend, str) and not is_local_backend(backend)
        self._backend = backend if isinstance(backend, str) else self._rung.name

    def script(
        self, parts: ProgramText, needed: Iterable[str] | None = None
    ) -> tuple[str, repro.ScriptCheck]:
        """Return a script and its check. The script assigns the settings `needed`; None means
        all."""
        case, rung, failure = self._reduction.case, self._rung, self._failure
        sandbox = self._oracle.sandbox
        if sandbox.threads > 1:
            prelude = f"torch.set_num_threads({sandbox.threads})\n{parts.prelude}"
            parts = replace(parts, prelude=prelude)
        check = repro.check(
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
        """Return the final script, checked in fresh interpreters."""
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
        self, text: str, check: repro.ScriptCheck, pool: ThreadPoolExecutor, steady: bool
    ) -> tuple[str, repro.ScriptCheck, fresh.StandaloneCheck]:
        """Return a script simplified and checked; as it was where only that stands alone."""
        short, shown = self._simplify(text, check) if steady else (text, check)
        short = format_script(short)
        standing = self._begin_standalone_check(short, shown, pool).result()
        if standing.ok or not standing.tried or shown is check:
            return short, shown, standing
        text = format_script(text)
        return text, check, self._begin_standalone_check(text, check, pool).result()

    def _run_on_backends(self, text: str, check: repro.ScriptCheck) -> Mapping[str, str]:
        """Return the script's outcome on each rung that a script can name."""
        if not self._named or check.kind in (Kind.HANG, Kind.MEMORY, Kind.SLOW):
            return {}
        backends = [rung.backend for rung in self._reduction.rungs]
        names = [name for name in backends if isinstance(name, str) and not is_local_backend(name)]
        sandbox = self._oracle.sandbox
        cache = sandbox.load(self._reduction.rungs)
        return find_outcomes(text, names, seconds=sandbox.seconds, cache=cache)

    def _simplify(self, text: str, check: repro.ScriptCheck) -> tuple[str, repro.ScriptCheck]:
        """Return the script as a person would write it, with the values that it shows."""
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
            """Begin to try a text, and keep what it shows."""
            wait = trial(candidate, start)

            def finish() -> bool:
                """Return whether the text still shows the failure."""
                found = wait()
                if found is not None:
                    shown[candidate] = found
                return found is not None

            return finish

        problem = ScriptProblem(text, begin, oracle=self._oracle, seconds=SIMPLIFY)
        simplify_script(problem)
        found = shown[problem.current]
        return repro.replace_comment(problem.current, check, found), found

    def _independent_scripts(self, parts: ProgramText, needed: Iterable[str]) -> Iterator[str]:
        """Yield scripts whose calls share less: inputs, seeds, and at last definitions."""
        for anew in (False, True):
            for random_inputs, random in ((False, False), (True, False), (True, True)):
                less = replace(
                    parts, mutates=True, random=random, random_inputs=random_inputs, anew=anew
                )
                yield self.script(less, needed)[0]

    def _begin_standalone_check(
        self, text: str, check: repro.ScriptCheck, pool: ThreadPoolExecutor
    ) -> Future[fresh.StandaloneCheck]:
        """Begin to check in fresh interpreters whether a script is standalone.

        Forks check first whether it passes in eager and one rung down.
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


def _with_draft(reduction: Reduction, found: Bisection, draft: DraftScript | None) -> Minified:
    """Return the result with the script, its size and its check filled in."""
    counts = reduction.oracle.counts
    result = Minified(
        replace(found, calls=counts.calls, culprit=draft.culprit if draft else None),
        calls=counts.calls,
        candidates=counts.candidates,
        cached=counts.cached,
        notes=tuple(reduction.notes),
    )
    if draft is None:
        return result
    ops, aten = draft.sizes
    text = draft.text
    if not draft.standing.ok:
        first, _, rest = text.partition("\n")
        text = f"{first}\n# Not standalone: {draft.standing.reason}\n{rest}"
    return replace(
        result,
        text=text,
        check=draft.check,
        ops=ops,
        ops_aten=aten,
        before=draft.before,
        unit=draft.unit,
        standalone=draft.standing.ok,
        ran=draft.standing.ran,
        outcomes=draft.outcomes,
    )


def _count_calls(candidate: Candidate) -> tuple[int, int]:
    """Return the number of calls in a program's Dynamo graphs and in its ATen graphs."""
    jobs = [functools.partial(size, candidate) for size in (_in_dynamo, _count_aten_calls)]
    found = [run_isolated(job, where="fork", seconds=60).value for job in jobs]
    return found[0] or 0, found[1] or 0


def _in_dynamo(candidate: Candidate, _: object) -> int:
    return sum(graph.ops for graph in capture_graphs(candidate.case()))


def _count_aten_calls(candidate: Candidate, _: object) -> int:
    """Count the calls in the program's ATen graphs, in a child."""
    case = candidate.case()
    return count_aten_calls(case.target, case.args, case.kwargs, case.dynamic)
