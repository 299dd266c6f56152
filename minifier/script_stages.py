"""Stages from a failing program to the script that shows its failure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

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
from fullgraph.minifier.emit.program_text import Program, Unwritable
from fullgraph.minifier.extract.extract import standalone
from fullgraph.minifier.minified import Minified
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.deferred import ReductionRefused
from fullgraph.minifier.oracle.failure import Kind
from fullgraph.minifier.oracle.identity import digest
from fullgraph.minifier.reduce.reduction import Reduction, UnexpectedFailure
from fullgraph.minifier.reduce.source.entry_point import load_module
from fullgraph.minifier.reduce.stages import (
    capture_graphs,
    case_of_text,
    reduce_text,
    reduce_tree,
    reduced,
    tolerate_reducer_errors,
)
from fullgraph.minifier.repro import fresh_interpreter as fresh
from fullgraph.minifier.repro import script as repro
from fullgraph.minifier.repro.build_parts import Facts, program
from fullgraph.minifier.rungs.bisection import Bisection
from fullgraph.minifier.rungs.culprit import Culprit, culprit
from fullgraph.minifier.rungs.ladder_run import again

TIMES = 2
"""Number of consecutive reproductions required before a fresh interpreter is asked."""
START = 120.0
"""Seconds that an interpreter may take before the failing call."""


@dataclass(frozen=True)
class DraftScript:
    """A script with what was measured about it."""

    text: str
    check: repro.Check
    before: int
    standing: fresh.Standing
    culprit: Culprit | None
    sizes: tuple[int, int]
    """Calls in Dynamo's graphs and in the ATen graphs."""
    unit: str = "operators"
    """The unit of `before`."""


def minified(reduction: Reduction, text: str | None) -> Minified:
    """Return the minified form of a program that fails; `text` is its source, if known.

    Raises UnexpectedFailure where it does not fail as `reduction` expects."""
    try:
        draft = _best(reduction, text)
    except ReductionRefused as error:
        refused = replace(reduction.bisection(), refused=str(error))
        return Minified(refused, calls=reduction.sandbox.calls)
    found = reduction.bisection()
    if draft is None:
        return _done(reduction, found, None)
    return _done(reduction, replace(found, culprit=draft.culprit), draft)


def _best(reduction: Reduction, text: str | None) -> DraftScript | None:
    """Return the first standalone script, from a graph or from source; else the first made."""
    made = []
    for way in (_from_graph, _from_source):
        try:
            draft = way(reduction, text)
        except Unwritable as error:
            reduction.notes.append(str(error))
            continue
        if draft is None:
            continue
        if not draft.standing.ok:
            reduction.notes.append(draft.standing.reason)
        if draft.standing.ok or not draft.standing.tried:
            return draft
        made.append(draft)
    return made[0] if made else None


def _from_graph(reduction: Reduction, _: str | None) -> DraftScript | None:
    try:
        return _of_graph(reduction)
    except UnexpectedFailure:
        reduction.begin()
        reduction.confirm()
        return _of_graph(reduction)


def _of_graph(reduction: Reduction) -> DraftScript | None:
    """Return the script of the smallest graph. Raises UnexpectedFailure."""
    reduction.show = lambda graph: _ScriptWriter(reduction).script(
        written(graph.module, graph.inputs)
    )[0]
    found = reduced(reduction)
    if found is None:
        return None
    parts = written(found.graph.module, found.graph.inputs)
    writer = _ScriptWriter(reduction)
    writer.backward = bool(found.case.loss)
    make = functools.partial(replace, found.case)
    draft = writer.draft(parts, found.settings, make, found.before)
    reduction.confirm()
    return draft


def _from_source(reduction: Reduction, text: str | None) -> DraftScript | None:
    reduction.steady.end()
    before = _smaller_text(reduction) if text is None else None
    before = before or _failing_text(reduction, text)
    if before is None:
        return None
    writer = _ScriptWriter(reduction)
    usual = Facts("tuple", False, False)
    reduction.show = lambda text: writer.script(program(text, usual))[0]
    after = reduce_text(reduction, before)
    make = functools.partial(case_of_text, after, reduction.case)
    parts = program(after, _facts(after, reduction.case))
    draft = writer.draft(parts, tuple(non_default_config()), make, len(before.splitlines()))
    return replace(draft, unit="lines")


def _smaller_text(reduction: Reduction) -> str | None:
    """Return the program's source without modules it does not need, if that fails.

    Otherwise the program is restored."""
    notes, undo = list(reduction.notes), None
    with tolerate_reducer_errors(reduction):
        undo = reduce_tree(reduction)
    if undo is None:
        return None
    found = _failing_text(reduction, None)
    if found is None:
        undo()
        reduction.notes[:] = notes
    return found


def _failing_text(reduction: Reduction, text: str | None) -> str | None:
    """Return the program's source if it shows the failure.

    The known source, else extracted: first with drawn values, then with the exact ones."""
    case = reduction.case
    ended: object = "it does not fail"
    for exact in (None, False, True):
        try:
            found = text
            if exact is not None:
                found = standalone(case.target, case.args, case.kwargs, exact=exact)
        except Unwritable as error:
            ended = error
            continue
        if found is None:
            continue
        tries = reduction.tries(f"text {digest(found)}")
        start = tries.report(functools.partial(case_of_text, found, case), [reduction.rung])
        if reduction.failure.same(start.failure):
            return found
        ended = start.broken or start.failure or ended
    reduction.notes.append(f"The source alone does not show the failure ({ended}).")
    return None


def _facts(text: str, case: Case) -> Facts:
    """Return what a run of the source reveals."""
    job = functools.partial(_run, text, case)
    found = run_isolated(job, where="fork", seconds=60).value
    return found or Facts("tuple", False, False)


def _run(text: str, case: Case, _: object) -> Facts:
    module = load_module(text)
    inputs = module.build()[1] if hasattr(module, "build") else module.inputs
    made = case_of_text(text, case)
    seed_generators(0)
    states, before = random_states(), snapshot(made.objects)
    found = run_and_record(made.target, made.args, made.kwargs, module=made.module).outputs
    form = "dict" if made.kwargs else "tuple" if type(inputs) is tuple else "one"
    aliases = [one.alias for one in found.values() if isinstance(one, RecordedTensor)]
    return Facts(
        form,
        isinstance(found.get("output"), RecordedTensor),
        has_drawn_random_numbers(states),
        before.has_changed() or any(name and not name.startswith("output") for name in aliases),
    )


class _ScriptWriter:
    """Scripts of programs that fail in one way."""

    def __init__(self, reduction: Reduction) -> None:
        self._work, self._rung, self._failure = reduction, reduction.rung, reduction.failure
        self._changed = non_default_config()
        self.backward = bool(reduction.case.loss)
        backend = self._rung.backend
        self._named = isinstance(backend, str) and not is_local_backend(backend)
        self._backend = backend if isinstance(backend, str) else self._rung.name

    def script(
        self, parts: Program, needed: Iterable[str] | None = None
    ) -> tuple[str, repro.Check]:
        """Return a script and its check; `needed` are the settings it makes, None for all."""
        reduction, rung, failure = self._work, self._rung, self._failure
        if reduction.sandbox.threads > 1:
            prelude = f"torch.set_num_threads({reduction.sandbox.threads})\n{parts.prelude}"
            parts = replace(parts, prelude=prelude)
        check = repro.check(
            failure,
            tol=reduction.case.tol,
            backward=self.backward,
            limit=reduction.sandbox.seconds if failure.kind is Kind.HANG else 0.0,
            calls=reduction.case.calls,
        )
        text = repro.script(
            parts,
            check,
            backend=self._backend,
            dynamic=reduction.case.dynamic,
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
        self, parts: Program, needed: Iterable[str], make: Callable[[], Case], before: int
    ) -> DraftScript:
        """Return the final script, run in fresh interpreters."""
        asked = again(make, self._rung, self._work.sandbox, TIMES)
        last = [wait().failure for wait in asked]
        steady = all(self._failure.same(failure) for failure in last)
        if steady and last[0] is not None:
            self._failure = last[0]
        text, check = self.script(parts, needed)
        self._work.tell("script", before, before, text)
        stands = self._stands(text, check)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(stands)
            if self._work.sandbox.jobs == 1:
                waiting.result()
            part = self._culprit(make, text) if steady else None
            sizes = _sizes(make)
            standing = waiting.result()
        if standing.ok and not steady:
            reason = f"It fails only sometimes: {self._failure}, but not in {TIMES} tries."
            standing = replace(standing, ok=False, reason=reason)
        return DraftScript(text, check, before, standing, part, sizes)

    def _stands(self, text: str, check: repro.Check) -> Callable[[], fresh.Standing]:
        """Return a function that asks fresh interpreters whether a script stands alone.

        A fork checks first whether it passes one rung down."""
        if not self._named:
            reason = (
                f"The backend {self._backend} is a function of this process: the script needs a "
                "line that registers it with torch._dynamo.register_backend."
            )
            return lambda: fresh.Standing(False, reason, fresh.Ran(None), tried=False)
        key = f"script {digest(text)}"
        known = key in self._work.journal.answers
        alone = functools.partial(
            fresh.stands_alone,
            *(text, check),
            seconds=START + self._work.seconds,
            environment=compiler_environment(),
            passes_below=not known and fresh.passes_below(text, self._work.sandbox.seconds),
            beside=self._work.sandbox.jobs > 1,
        )
        return functools.partial(self._work.journal.once, key, alone)

    def _culprit(self, make: Callable[[], Case], text: str) -> Culprit | None:
        """Return the part of the rung without which the reduced program does not fail."""
        try:
            case = make()
        except Exception:
            return None
        tries = self._work.tries(f"culprit {digest(text)}")
        return culprit(case, self._rung, self._failure, tries)


def _done(reduction: Reduction, found: Bisection, draft: DraftScript | None) -> Minified:
    told = Minified(
        replace(found, calls=reduction.sandbox.calls),
        calls=reduction.sandbox.calls,
        candidates=reduction.counts.calls,
        cached=reduction.cached,
        notes=tuple(reduction.notes),
    )
    if draft is None:
        return told
    ops, aten = draft.sizes
    return replace(
        told,
        text=draft.text,
        check=draft.check,
        ops=ops,
        ops_aten=aten,
        before=draft.before,
        unit=draft.unit,
        standalone=draft.standing.ok,
    )


def _sizes(make: Callable[[], Case]) -> tuple[int, int]:
    """Return a program's calls in Dynamo's graphs and in the ATen graphs."""
    jobs = [functools.partial(size, make) for size in (_in_dynamo, _in_aten)]
    found = [run_isolated(job, where="fork", seconds=60).value for job in jobs]
    return found[0] or 0, found[1] or 0


def _in_dynamo(make: Callable[[], Case], _: object) -> int:
    return sum(graph.ops for graph in capture_graphs(make()))


def _in_aten(make: Callable[[], Case], _: object) -> int:
    case = make()
    return count_aten_calls(case.target, case.args, case.kwargs, case.dynamic)
