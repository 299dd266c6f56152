"""Branches that no input takes, forced in the original and in the new code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch

from fullgraph.compiler.events import Position
from fullgraph.compiler.isolation import Deadline, snapshot
from fullgraph.compiler.program import Program
from fullgraph.compiler.sources import edit_functions, read_source
from fullgraph.rewrites.proof.conditions import find_condition, force_conditions
from fullgraph.rewrites.proof.live_state import override_program
from fullgraph.rewrites.proof.proof import Branches, Check, ProofInput, Seen
from fullgraph.rewrites.proof.recorded_runs import record_case, run_proof_job
from fullgraph.rewrites.proof.run_cache import RecordedRun

_Side = tuple[int, bool]
"""A condition, by its index, and the value that it is forced to have."""


def force_branches(
    subject: Program,
    versions: tuple[Mapping[str, str], Mapping[str, str]],
    tests: Sequence[Position],
    branches: Sequence[Branches],
    special: bool,
    deadline: Deadline,
    compare: Callable[..., list[Check]],
) -> list[Branches]:
    """Return `branches`, with what the two versions do where a side that is missing is forced.

    Each condition is forced where the first version computes it, and where the second does. What
    the second no longer computes stays unseen, and so does a side on which an operator raises.
    """
    places: tuple[dict[_Side, list[Position]], dict[_Side, list[Position]]] = {}, {}
    for index, one in enumerate(branches):
        test = tests[index]
        texts = [version.get(test.file) or _text_of(test.file) for version in versions]
        found = find_condition(test, *texts) if one.missing else []
        for side in one.missing if found else ():
            places[0][index, side], places[1][index, side] = [test], found
    if not places[0]:
        return list(branches)
    cases = [ProofInput(0, backward) for backward in {False, torch.is_grad_enabled()}]
    ran = []
    for texts_by_file, where in zip(versions, places, strict=True):
        with override_program(subject.target, texts_by_file):
            job = partial(_run_forced, subject, where, cases, special)
            ran.append(run_proof_job(subject, deadline, job).value or {})
    known = list(branches)
    for index, side in ran[0].keys() & ran[1].keys():
        old, new = (one[index, side].behaviours for one in ran)
        if any(behaviour.crashed for behaviour in old.values()):
            continue
        wrong = next((check.detail for check in compare(old, new) if not check.ok), "")
        how = Seen.DIFFERS if wrong else Seen.FORCED
        seen = replace(known[index], true=how) if side else replace(known[index], false=how)
        known[index] = replace(seen, difference=wrong or seen.difference)
    return known


def _run_forced(
    subject: Program,
    sides: Mapping[_Side, Sequence[Position]],
    cases: Sequence[ProofInput],
    special: bool,
) -> dict[_Side, RecordedRun]:
    """Run the program once for each side, with the conditions at its places forced to take it.

    Sides whose conditions the program does not compute are left out.
    """
    forced = {}
    before = snapshot(subject.objects())
    for side, places in sides.items():
        run = RecordedRun()
        edits, computed = force_conditions(places, side[1])
        with edit_functions(edits):
            for case in cases:
                run.behaviours[case] = record_case(subject, case, special, None)
                before.restore()
        if computed:
            forced[side] = run
    return forced


def _text_of(file: str) -> str:
    source = read_source(file)
    return source.text if source else ""
