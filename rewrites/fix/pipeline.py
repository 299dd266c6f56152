"""`fix`: explanation, offers, proofs, accepted edits, fixes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
class Found:
    """What the stages of `fix` have found so far: each makes a new one of the last."""

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

    def with_safe(self, state: SearchState) -> Found:
        """Return this with `state` as the end of both searches."""
        return replace(self, safe=state, unsafe=state)


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
            and settings goes on from there, as after a kill. None keeps nothing. Files that the
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

    deadline = Deadline(seconds)
    kept = open_answers(cache, program) if cache is not None else None
    runs = ProgramRuns(program, rules, deadline, report_progress, inductor=inductor, kept=kept)
    with progress_line("Explaining …") as show:
        known: list[Explanation] = []
        found: Found | None = None
        try:
            for step in runs.explanations():
                known = [step]
            found = _begin(known[0])
            for stage in STAGES:
                found = stage(found, runs, rounds)
                if runs.is_late():
                    break
        except TimeUp:
            pass
        except KeyboardInterrupt as pressed:
            if not known:
                raise
            runs.interrupt = pressed
    interrupt = runs.interrupt
    found = found or _begin(known[0])
    ended_by = "Ctrl-C" if interrupt else "the time limit" if runs.is_late() else None
    fixes = Fixes(
        torch=torch.__version__,
        target=program.name,
        before=known[0],
        after=found.safe.program.explanation,
        after_unsafe=found.unsafe.program.explanation,
        whole=found.whole,
        call_setting=found.setting,
        compiler_failure=runs.compiler_failure,
        suggestions=list_suggestions(found.safe, found.unsafe, found.ideas, found.whole, ended_by),
        unfixed=list_unfixed(found.unsafe, rules, ended_by, found.whole, found.setting),
        originals={**found.safe.originals, **found.unsafe.originals},
        texts=found.safe.program.texts,
        texts_unsafe=found.unsafe.program.texts,
        subject=program.target,
        ended_by=ended_by or "",
        ran_compiled=runs.has_compiled(found.unsafe.program.texts),
        reused=kept.reused if kept is not None else 0,
    )
    if interrupt is not None:
        interrupt.partial = fixes  # type: ignore[attr-defined]
        raise interrupt
    return fixes


def _begin(explanation: Explanation) -> Found:
    """Return what is found before any edit is tried."""
    before = SearchState(EditedProgram({}, explanation))
    return Found(before, before, before, before)


def _run_without_edits(found: Found, runs: ProgramRuns, rounds: int) -> Found:
    return replace(found, whole=_run_fullgraph("none", found.safe, runs))


def _find_safe_edits(found: Found, runs: ProgramRuns, rounds: int) -> Found:
    plain, safe = search_safe_edits(found.safe, runs, rounds)
    return replace(found, plain=plain, safe=safe, unsafe=safe, base=safe)


def _find_safe_recompile_edits(found: Found, runs: ProgramRuns, rounds: int) -> Found:
    return found.with_safe(search_recompile_edits(found.safe, Applicability.SAFE, runs))


def _mend_safe_indices(found: Found, runs: ProgramRuns, rounds: int) -> Found:
    level = Applicability.SAFE
    return found.with_safe(search_index_edits(found.safe, found.whole, level, runs, rounds))


def _compile_safe_edits(found: Found, runs: ProgramRuns, rounds: int) -> Found:
    return found.with_safe(undo_uncompiled(found.safe, runs))


def _run_safe_edits(found: Found, runs: ProgramRuns, rounds: int) -> Found:
    if found.is_whole or found.safe.program.parent is None:
        return found
    return replace(found, whole=_run_fullgraph("safe", found.safe, runs) or found.whole)


def _find_unsafe_edits(found: Found, runs: ProgramRuns, rounds: int) -> Found:
    unsafe = search_unsafe_edits(found.plain, found.safe, runs, rounds)
    return replace(found, unsafe=unsafe, base=unsafe)


def _find_boundaries(found: Found, runs: ProgramRuns, rounds: int) -> Found:
    tried = found.is_whole or _run_fullgraph("unsafe", found.unsafe, runs)
    if tried is True or (tried and tried.check.ok):
        return found  # `fullgraph=True` is the answer
    unsafe = search_with_boundaries(found.unsafe, found.plain, found.safe, runs, rounds)
    return replace(found, unsafe=unsafe, base=unsafe)


def _find_unsafe_recompile_edits(found: Found, runs: ProgramRuns, rounds: int) -> Found:
    unsafe = search_recompile_edits(found.unsafe, Applicability.UNSAFE, runs)
    return replace(found, unsafe=unsafe)


def _mend_unsafe_indices(found: Found, runs: ProgramRuns, rounds: int) -> Found:
    if found.unsafe.program is found.safe.program:
        return found
    level = Applicability.UNSAFE
    unsafe = search_index_edits(found.unsafe, found.whole, level, runs, rounds)
    return replace(found, unsafe=unsafe)


def _compile_unsafe_edits(found: Found, runs: ProgramRuns, rounds: int) -> Found:
    if found.unsafe.program is found.safe.program:
        return found
    return replace(found, unsafe=undo_uncompiled(found.unsafe, runs))


def _run_unsafe_edits(found: Found, runs: ProgramRuns, rounds: int) -> Found:
    if found.is_whole or found.unsafe.program is found.safe.program:
        return found
    return replace(found, whole=_run_fullgraph("unsafe", found.unsafe, runs) or found.whole)


def _prove_settings(found: Found, runs: ProgramRuns, rounds: int) -> Found:
    if found.is_whole:
        return found
    return replace(found, ideas=prove_config_ideas(found.unsafe, runs))


def _find_setting(found: Found, runs: ProgramRuns, rounds: int) -> Found:
    broken = bool(found.unsafe.program.explanation.causes) and not found.is_whole
    if found.unsafe.program.explanation.recompiles or broken:
        found = replace(found, base=found.unsafe)  # else the setting stands beside the edits
    if found.base.program.explanation.recompiles or broken:
        return replace(found, setting=find_setting(found.base, runs))
    return found


STAGES: tuple[Callable[[Found, ProgramRuns, int], Found], ...] = (
    _run_without_edits,
    _find_safe_edits,
    _find_safe_recompile_edits,
    _mend_safe_indices,
    _compile_safe_edits,
    _run_safe_edits,
    _find_unsafe_edits,
    _find_boundaries,
    _find_unsafe_recompile_edits,
    _mend_unsafe_indices,
    _compile_unsafe_edits,
    _run_unsafe_edits,
    _prove_settings,
    _find_setting,
)
"""What `fix` does after the explanation, in order; a search has `rounds` rounds at most."""


def _run_fullgraph(edits: str, state: SearchState, runs: ProgramRuns) -> FullgraphRun | None:
    """Run the edited program with `fullgraph=True` and Inductor; None if it has breaks.

    `edits` says which edits it has. Without Inductor, that Dynamo captured it as one graph is all
    that is known.
    """
    first = state.program
    while first.parent is not None:
        first = first.parent
    if not first.explanation.causes or not state.program.explanation.fullgraph.ok:
        return None
    if not runs.inductor:
        return FullgraphRun(edits, Check("fullgraph", True, NOT_RUN))
    return FullgraphRun(edits, runs.check_fullgraph(state.program.texts, state.accepted))
