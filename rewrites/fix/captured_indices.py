"""Indices that Dynamo captures under `fullgraph=True`, and AOTAutograd does not take."""

from __future__ import annotations

from dataclasses import replace

from fullgraph.compiler.categories import Category
from fullgraph.compiler.events import Position
from fullgraph.compiler.private import find_failed_index
from fullgraph.compiler.sources import read_source
from fullgraph.diagnose.explanation_data import Cause
from fullgraph.rewrites.fix.edited_program import EditedProgram
from fullgraph.rewrites.fix.results import FullgraphRun
from fullgraph.rewrites.fix.runs import ProgramRuns
from fullgraph.rewrites.fix.search import SearchState, search_edits
from fullgraph.rewrites.proof import Check
from fullgraph.rewrites.rule import Applicability


def search_index_edits(
    state: SearchState,
    whole: FullgraphRun | None,
    level: Applicability,
    runs: ProgramRuns,
    rounds: int,
) -> SearchState:
    """Edit the indices `x[t]` at which Inductor stops; return the new state.

    An index that is a 0-d tensor is a number whose value AOTAutograd does not know. Return `state`
    itself without Inductor, if the run `whole` succeeded with other edits or none, if it has no
    edits or no single graph, and if it still does not run in the end. At most `rounds` indices are
    edited; `level` is the least safe applicability that an edit may have.
    """
    if not runs.inductor or (whole is not None and whole.check.ok):
        return state
    found = state
    for _ in range(rounds + 1):
        program = found.program
        if program.parent is None or not program.explanation.fullgraph.ok:
            return state
        check = runs.check_fullgraph(program.texts, found.accepted)
        if check.ok:
            return found
        cause = _cause_of(check, found)
        if cause is None:
            return state
        explanation = replace(program.explanation, causes=(*program.explanation.causes, cause))
        asked = replace(program, explanation=explanation)
        found = search_edits(replace(found, program=asked), level, runs, 1, boundaries=False)
        if found.program is asked:
            return state
        found = replace(found, program=_with_ancestor(found.program, asked, program))
    return state


def _with_ancestor(program: EditedProgram, old: EditedProgram, new: EditedProgram) -> EditedProgram:
    """Return `program` with its ancestor `old` replaced by `new`."""
    if program is old or program.parent is None:
        return new
    return replace(program, parent=_with_ancestor(program.parent, old, new))


def _cause_of(check: Check, state: SearchState) -> Cause | None:
    """Return the index at which a run under Inductor failed as a cause; None if it is no index."""
    place = find_failed_index(check.raised)
    if place is None:
        return None
    file, line, column, code = place
    source = read_source(file)
    text = state.program.texts.get(file, source.text if source is not None else "")
    whole = "".join(text.splitlines()[line - 1 : line])
    start = len(whole) - len(whole.lstrip()) + column
    if not whole.startswith(code, start):
        return None
    column = len(whole[:start].encode())
    return Cause(
        id="I1",
        category=Category.SCALAR.value,
        gb_id=None,
        gb_type="",
        position=Position(file, line, column, line, column + len(code.encode())),
        expression=code,
        source=(),
        message=f"`{code}` has a tensor as its index.",
        modes=("fullgraph",),
    )
