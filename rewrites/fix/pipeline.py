"""`fix`: explanation, offers, proofs, accepted edits, fixes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from fullgraph.compiler.display import progress_line
from fullgraph.compiler.isolation import Deadline, TimeUp
from fullgraph.compiler.ladder import Backend
from fullgraph.compiler.program import Loss, parse_program
from fullgraph.compiler.sources import index_live_functions
from fullgraph.diagnose.explanation import Explanation
from fullgraph.rewrites.fix.captured_indices import search_index_edits
from fullgraph.rewrites.fix.causes import CauseKey
from fullgraph.rewrites.fix.config_ideas import prove_config_ideas
from fullgraph.rewrites.fix.edited_program import EditedProgram
from fullgraph.rewrites.fix.fix_report import format_place
from fullgraph.rewrites.fix.fixes import Fixes
from fullgraph.rewrites.fix.kept_answers import open_answers
from fullgraph.rewrites.fix.pruning import search_with_boundaries, undo_uncompiled
from fullgraph.rewrites.fix.recompile_edits import search_recompile_edits
from fullgraph.rewrites.fix.recompiles import CheckedSetting, find_setting
from fullgraph.rewrites.fix.results import NOT_RUN, FullgraphRun, list_suggestions, list_unfixed
from fullgraph.rewrites.fix.runs import OfferedEdit, ProgramRuns
from fullgraph.rewrites.fix.search import (
    SearchState,
    search_safe_edits,
    search_unsafe_edits,
)
from fullgraph.rewrites.proof import Check, Proof
from fullgraph.rewrites.rule import Applicability
from fullgraph.rewrites.rules import all_rules, select_rules

ROUNDS, SECONDS = 8, 300.0
"""Default limits of `fix`: rounds of edits, and wall time in seconds."""


@dataclass(frozen=True)
class FixStep:
    """One step of `fix`, for a progress display."""

    what: str
    """"proving FG301 at line 12"."""
    seconds: float
    """Time since the start."""
    edits: tuple[OfferedEdit, ...] = ()
    """The edits known by then, each with the state of its proof."""


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What the stages of `fix` have so far: each makes a new one of the last."""

    plain: SearchState
    """The end of the search for safe edits in plain code, where that for unsafe ones begins."""
    safe: SearchState
    unsafe: SearchState
    base: SearchState
    """What a setting of the caller is tried on."""
    whole: FullgraphRun | None = None
    ideas: Mapping[tuple[CauseKey, str], Proof] = field(default_factory=dict)
    setting: CheckedSetting | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the program, with some of its edits or none, ran under `fullgraph=True`."""
        return self.whole is not None and self.whole.check.ok

    def state(self, level: Applicability) -> SearchState:
        """Return the end of the search with edits that are at least as safe as `level`."""
        return self.safe if level is Applicability.SAFE else self.unsafe

    def with_state(self, level: Applicability, state: SearchState) -> SearchResult:
        """Return this with another end of a search; that for unsafe edits begins with the safe."""
        if level is Applicability.SAFE:
            return replace(self, safe=state, unsafe=state)
        return replace(self, unsafe=state)

    def has_edits(self, level: Applicability) -> bool:
        """Return whether a search found edits, the unsafe one others than the safe one."""
        before = self.plain.program.original if level is Applicability.SAFE else self.safe.program
        return self.state(level).program is not before


@index_live_functions()
def fix(
    model: Callable[..., object],
    inputs: object,
    *,
    kwargs: Mapping[str, object] | None = None,
    calls: Sequence[object] = (),
    loss: Loss = None,
    backend: Backend = "eager",
    mode: str | None = None,
    dynamic: bool | None = None,
    options: Mapping[str, Any] | None = None,
    select: Collection[str] = (),
    ignore: Collection[str] = (),
    inductor: bool = True,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    cache: str | os.PathLike[str] | None = None,
    progress: Callable[[FixStep], object] | None = None,
) -> Fixes:
    """Rewrite the causes that keep `model(inputs)` from being one graph; prove each rewrite.

    Args:
        model, inputs, kwargs, calls, loss, backend, mode, dynamic, options: see
            `explain`; the proof adds inputs of its own.
        select, ignore: codes or names of rules, or prefixes of them.
        inductor: whether to run the result under Inductor, once.
        rounds: limit of the search.
        seconds: wall time after which `fix` returns what is proved by then. `ended_by` of the
            result says so, and what was not proved has the state "time was up".
        cache: a folder for what is found out: a later call with the same program, inputs, files
            and settings continues from there, as after a kill. None keeps nothing. Files that the
            program reads, and modules that it imports by computed names, are taken as unchanged.
        progress: called before every run of the program, with the edits known by then.

    Nothing is written: `Fixes.diff()` shows the edits, `Fixes.apply()` writes them, `Fixes.model`
    is a patched copy. Raises FullgraphError for arguments that cannot be called.
    A KeyboardInterrupt carries the fixes found so far as `partial`, if the causes are known.
    """
    program = parse_program(
        model,
        inputs,
        kwargs=kwargs,
        calls=calls,
        loss=loss,
        backend=backend,
        mode=mode,
        dynamic=dynamic,
        options=options,
        command="fix",
    )
    rules = select_rules(all_rules(), select, ignore)
    start = time.monotonic()

    def report_progress(what: str) -> None:
        """Report the step that begins, and the edits known by then."""
        edits = tuple(runs.offered.values())
        lines = (f"{one.rule} at {format_place(one.file, one.line)}: {one.state}" for one in edits)
        show("\n".join((f"{what[:1].upper()}{what[1:]} …", *lines)))
        if progress is not None:
            progress(FixStep(what, time.monotonic() - start, edits))

    kept = open_answers(cache, program) if cache is not None else None
    runs = ProgramRuns(
        program,
        rules,
        Deadline(seconds),
        report_progress,
        rounds=rounds,
        inductor=inductor,
        kept=kept,
    )
    explanation: Explanation | None = None
    result: SearchResult | None = None
    with progress_line("Explaining …") as show:
        try:
            for step in runs.explanations():
                explanation = step
            assert explanation is not None
            result = _begin(explanation)
            for stage in STAGES:
                result = stage(result, runs)
                if runs.is_late():
                    break
        except TimeUp:
            pass
        except KeyboardInterrupt as interrupt:
            if explanation is None:
                raise
            runs.interrupt = interrupt
    assert explanation is not None
    result = result or _begin(explanation)
    ended_by = "Ctrl-C" if runs.interrupt else "the time limit" if runs.is_late() else None
    safe, unsafe = result.safe, result.unsafe
    fixes = Fixes(
        torch=torch.__version__,
        target=program.name,
        before=explanation,
        after=safe.program.explanation,
        after_unsafe=unsafe.program.explanation,
        whole=result.whole,
        call_setting=result.setting,
        compiler_failure=runs.compiler_failure,
        suggestions=list_suggestions(safe, unsafe, result.ideas, result.whole, ended_by),
        unfixed=list_unfixed(unsafe, rules, ended_by, result.whole, result.setting),
        originals={**safe.originals, **unsafe.originals},
        texts=safe.program.texts,
        texts_unsafe=unsafe.program.texts,
        subject=program.target,
        ended_by=ended_by or "",
        ran_compiled=runs.has_compiled(unsafe.program.texts),
        reused=kept.reused if kept is not None else 0,
    )
    if runs.interrupt is not None:
        runs.interrupt.partial = fixes  # type: ignore[attr-defined]
        raise runs.interrupt
    return fixes


def _begin(explanation: Explanation) -> SearchResult:
    """Return what is known before any edit is tried."""
    before = SearchState(EditedProgram({}, explanation))
    return SearchResult(before, before, before, before)


def _run_without_edits(result: SearchResult, runs: ProgramRuns) -> SearchResult:
    return replace(result, whole=_run_fullgraph("none", result.safe, runs))


def _find_safe_edits(result: SearchResult, runs: ProgramRuns) -> SearchResult:
    plain, safe = search_safe_edits(result.safe, runs, runs.rounds)
    return replace(result, plain=plain, safe=safe, unsafe=safe, base=safe)


def _find_unsafe_edits(result: SearchResult, runs: ProgramRuns) -> SearchResult:
    unsafe = search_unsafe_edits(result.plain, result.safe, runs, runs.rounds)
    return replace(result, unsafe=unsafe, base=unsafe)


def _find_boundaries(result: SearchResult, runs: ProgramRuns) -> SearchResult:
    tried = result.whole if result.is_whole else _run_fullgraph("unsafe", result.unsafe, runs)
    if tried is not None and tried.check.ok:
        return result  # `fullgraph=True` is the answer
    unsafe = search_with_boundaries(result.unsafe, result.plain, result.safe, runs, runs.rounds)
    return replace(result, unsafe=unsafe, base=unsafe)


def _find_recompile_edits(
    level: Applicability, result: SearchResult, runs: ProgramRuns
) -> SearchResult:
    return result.with_state(level, search_recompile_edits(result.state(level), level, runs))


def _mend_indices(level: Applicability, result: SearchResult, runs: ProgramRuns) -> SearchResult:
    if not result.has_edits(level):
        return result
    state = search_index_edits(result.state(level), result.whole, level, runs, runs.rounds)
    return result.with_state(level, state)


def _compile_edits(level: Applicability, result: SearchResult, runs: ProgramRuns) -> SearchResult:
    if not result.has_edits(level):
        return result
    return result.with_state(level, undo_uncompiled(result.state(level), runs))


def _run_edits(level: Applicability, result: SearchResult, runs: ProgramRuns) -> SearchResult:
    if result.is_whole or not result.has_edits(level):
        return result
    return replace(
        result, whole=_run_fullgraph(level.value, result.state(level), runs) or result.whole
    )


def _prove_settings(result: SearchResult, runs: ProgramRuns) -> SearchResult:
    if result.is_whole:
        return result
    return replace(result, ideas=prove_config_ideas(result.unsafe, runs))


def _find_setting(result: SearchResult, runs: ProgramRuns) -> SearchResult:
    broken = bool(result.unsafe.program.explanation.causes) and not result.is_whole
    if result.unsafe.program.explanation.recompiles or broken:
        result = replace(result, base=result.unsafe)  # else the setting stands beside the edits
    if result.base.program.explanation.recompiles or broken:
        return replace(result, setting=find_setting(result.base, runs))
    return result


_LAST: tuple[Callable[[Applicability, SearchResult, ProgramRuns], SearchResult], ...] = (
    _find_recompile_edits,
    _mend_indices,
    _compile_edits,
    _run_edits,
)
STAGES: tuple[Callable[[SearchResult, ProgramRuns], SearchResult], ...] = (
    _run_without_edits,
    _find_safe_edits,
    *(partial(stage, Applicability.SAFE) for stage in _LAST),
    _find_unsafe_edits,
    _find_boundaries,
    *(partial(stage, Applicability.UNSAFE) for stage in _LAST),
    _prove_settings,
    _find_setting,
)
"""What `fix` does after the explanation, in order."""


def _run_fullgraph(edits: str, state: SearchState, runs: ProgramRuns) -> FullgraphRun | None:
    """Run the edited program with `fullgraph=True` and Inductor; None if it has breaks.

    `edits` says which edits it has. Without Inductor, that Dynamo captured it as one graph is all
    that is known.
    """
    program = state.program
    if not program.original.explanation.causes or not program.explanation.fullgraph.ok:
        return None
    if not runs.inductor:
        return FullgraphRun(edits, Check("fullgraph", True, NOT_RUN))
    return FullgraphRun(edits, runs.check_fullgraph(program.texts, state.accepted))
