"""Stages from a failing program to a script that shows its failure."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from fullgraph.compiler.isolation import (
    has_drawn_random_numbers,
    random_states,
    run_isolated,
    snapshot,
)
from fullgraph.compiler.private import non_default_config
from fullgraph.compiler.results import RecordedTensor, run_and_record, seed_generators
from fullgraph.minifier.emit.emit import source as written
from fullgraph.minifier.emit.program_text import Unwritable
from fullgraph.minifier.extract.extract import standalone
from fullgraph.minifier.minified import Minified
from fullgraph.minifier.oracle.candidate import Report
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.reduce.reduction import Reduction
from fullgraph.minifier.reduce.source.entry_point import calls_in, load_module
from fullgraph.minifier.reduce.stages import (
    case_of_text,
    find_smallest_graph,
    reduce_text,
    replace_modules_by_stubs,
    source_candidate,
    tolerate_errors,
)
from fullgraph.minifier.repro.build_parts import UNKNOWN, ProgramFacts, program
from fullgraph.minifier.repro.script_text import count_lines
from fullgraph.minifier.rungs.bisection import Bisection
from fullgraph.minifier.rungs.ladder_run import ReductionRefused, check_reproducible
from fullgraph.minifier.script_writer import DraftScript, ScriptWriter

_SEED = 1729
"""Seed that programs hardly use, so that a program that sets its own changes the random state."""


def make_minified(reduction: Reduction, found: Bisection, text: str | None) -> Minified:
    """Reduce a failing program to a script; return the script and the bisection `found`.

    `text` is the program's source code; None if it is to be extracted from the live program. If the
    failure does not recur, the result has no script but a sentence in `refused`.
    """
    try:
        draft = _best_script(reduction, text)
    except ReductionRefused as error:
        found = replace(found, refused=str(error))
        return Minified(found, calls=reduction.oracle.counts.calls)
    return _with_draft(reduction, found, draft)


def _best_script(reduction: Reduction, text: str | None) -> DraftScript | None:
    """Return the first script that fails in the same way in a fresh interpreter.

    The scripts are that of the smallest failing graph, that of the source code `text` (None:
    extracted from the live program), and that of the file that calls `minify`. If none fails so,
    returns the first that passes its controls: a script that fails in eager, or one rung below,
    shows no failure of the compiler. None if there is none.
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
    """Return the script of the smallest failing graph; None if no graph fails alone."""
    writer = ScriptWriter(reduction)
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
    """Reduce the program's source and return its script; None if no source shows the failure.

    If `text` is None, the source is extracted from the live program.
    """
    check_reproducible(reduction.program, reduction.oracle.expected, reduction.oracle)
    before = _smaller_text(reduction) if text is None else None
    before = before or _failing_text(reduction, text)
    return None if before is None else _script_from_failing_text(reduction, before)


def _script_from_text(reduction: Reduction, text: str) -> DraftScript | None:
    """Reduce the source code `text` and return its script; None if it does not fail alike."""
    check_reproducible(reduction.program, reduction.oracle.expected, reduction.oracle)
    report = _run_text(reduction, text)
    if reduction.oracle.expected.same(report.failure):
        return _script_from_failing_text(reduction, text)
    reduction.notes.append("The file that makes the program does not show the failure.")
    return None


def _script_from_failing_text(reduction: Reduction, before: str) -> DraftScript:
    """Reduce `before`, source code that shows the failure, and return its script."""
    writer = ScriptWriter(reduction)
    usual = ProgramFacts("tuple", False, False)
    after = reduce_text(
        replace(reduction, script_of=lambda text: writer.script(program(text, usual))[0]), before
    )
    candidate = source_candidate(reduction, after)
    parts = program(after, _run_for_facts(after, reduction.case))
    draft = writer.draft(parts, tuple(non_default_config()), candidate, count_lines(before))
    return replace(draft, unit="lines")


def _smaller_text(reduction: Reduction) -> str | None:
    """Return source code of the program with stubs for modules that the failure does not need.

    None, with the modules restored, if that source does not show the failure.
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
    """Return source code of the program that shows the failure; None if none does.

    Tries `text` unless it is None, then source extracted from the live program: first with random
    weights and inputs, then with the program's own.
    """
    case, oracle = reduction.case, reduction.oracle
    ending: object = "it does not fail"
    for exact in (None, False, True):
        try:
            found = text
            if exact is not None:
                found = standalone(
                    case.target, case.args, case.kwargs, earlier=case.earlier, exact=exact
                )
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
    """Run the program of the source code `text` on the failing rung only; return the report."""
    candidate = replace(source_candidate(reduction, text), rungs=(reduction.rung,))
    return reduction.oracle.report(candidate).result()


def _run_for_facts(text: str, case: Case) -> ProgramFacts:
    """Run a program in a child; return facts on it, such as whether it returns one tensor.

    `text` is its source code. If the run fails, the facts are `UNKNOWN`.
    """
    job = functools.partial(_facts_of_run, text, case)
    found = run_isolated(job, where="fork", seconds=60).value
    return found or UNKNOWN


def _facts_of_run(text: str, case: Case, _: object) -> ProgramFacts:
    """Run a program in this process; return facts on it. `text` is its source code."""
    module = load_module(text)
    inputs = module.build()[1] if hasattr(module, "build") else module.inputs
    seed_generators(_SEED)
    states = random_states()
    made = case_of_text(text, case)
    random_inputs = has_drawn_random_numbers(states)
    seed_generators(0)
    states, before = random_states(), snapshot(made.objects)
    found = run_and_record(made.target, made.args, made.kwargs, module=made.module).outputs
    last = calls_in(inputs)[-1]
    form = "dict" if made.kwargs else "tuple" if type(last) is tuple else "one"
    aliases = [one.alias for one in found.values() if isinstance(one, RecordedTensor)]
    return ProgramFacts(
        form,
        isinstance(found.get("output"), RecordedTensor),
        has_drawn_random_numbers(states),
        before.has_changed() or any(name and not name.startswith("output") for name in aliases),
        random_inputs,
    )


def _with_draft(reduction: Reduction, found: Bisection, draft: DraftScript | None) -> Minified:
    """Return what a bisection and a reduction found, as one result.

    It has the script of `draft`, and no script if `draft` is None.
    """
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
