"""The search for graph breaks hidden behind others, in both modes."""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from fullgraph.compiler.events import Position, Recording
from fullgraph.compiler.isolation import snapshot
from fullgraph.compiler.observe import Observations
from fullgraph.compiler.program import Program
from fullgraph.compiler.sources import read_source
from fullgraph.diagnose.causes import HiddenBreak, ModeName, expression_at
from fullgraph.diagnose.explanation_data import Note
from fullgraph.diagnose.taxonomy import quote
from fullgraph.diagnose.taxonomy.flow import raises
from fullgraph.diagnose.trace import Trace, describe_end, isolate, trace_here
from fullgraph.diagnose.unmask import (
    UnmaskRequest,
    UnmaskResult,
    UnmaskRound,
    trace_with_replacements,
    unmask,
)


@dataclass(frozen=True)
class HiddenSearch:
    """Results so far of the search for hidden breaks."""

    hidden: tuple[tuple[HiddenBreak, ModeName], ...] = ()
    """Hidden breaks, and the mode in which each was found."""
    values: Observations = field(default_factory=Observations)
    """Eager values of the replaced expressions."""
    notes: tuple[Note, ...] = ()
    runs: int = 0
    """How often the user's code ran."""
    unrestored: tuple[str, ...] = ()
    stopped: str = ""
    """Why the search ended: "nothing new", or its limit "rounds" or "seconds"; "" if it did not."""


def search_hidden(
    program: Program, traces: dict[ModeName, Trace], rounds: int, seconds: float
) -> Iterator[HiddenSearch]:
    """Search for breaks hidden behind those of `traces`; yield the results after each round.

    Each mode has at most `rounds` rounds; all modes together have at most `seconds` seconds.
    """
    search = HiddenSearch()
    start = time.monotonic()
    for number, (mode, trace) in enumerate(traces.items()):
        left = seconds - (time.monotonic() - start) if number else seconds
        if number and left <= 0:
            yield replace(search, stopped="seconds")
            return
        unrestored: dict[str, None] = {}
        before = search.stopped
        for found in unmask(
            trace.recording,
            partial(_run_request, program, mode, unrestored),
            rounds=rounds,
            seconds=left,
        ):
            values = search.values if found.forced else add_values(search.values, found.values)
            search = HiddenSearch(
                (*search.hidden, *((hidden, mode) for hidden in found.found)),
                values,
                tuple(dict.fromkeys((*search.notes, *notes_on_search(found, mode, rounds, left)))),
                search.runs + found.runs,
                tuple(dict.fromkeys((*search.unrestored, *unrestored))),
                _combine_stops(before, found.stopped or ""),
            )
            yield search


def _combine_stops(earlier: str, later: str) -> str:
    """Return why two searches for hidden causes, taken together, stopped.

    One ran in default mode, and then one with `fullgraph=True`.

    If a limit stopped the earlier search, return that limit: "rounds" or "seconds". Otherwise
    return `later`, the reason of the later search.
    """
    return earlier if earlier in ("rounds", "seconds") else later


def _run_request(
    program: Program, mode: ModeName, unrestored: dict[str, None], request: UnmaskRequest
) -> UnmaskResult:
    """Trace the program with the replacements of `request`, in isolation; return the result.

    If the run fails, the result holds only `error`. A sentence on each state that could not be
    restored is added to `unrestored` as a key.
    """

    def trace_request(in_process: bool) -> UnmaskResult:
        """Trace the program with the replacements of `request`."""
        before = snapshot(program.objects())

        def trace_again() -> Recording:
            """Restore the program's state and trace it."""
            before.restore()
            return trace_here(
                program, lambda event: None, capture=mode == "fullgraph", in_process=in_process
            ).recording

        return trace_with_replacements(request, lambda: program.run(program.target), trace_again)

    outcome = isolate(program, lambda emit, in_process: trace_request(in_process), request.seconds)
    unrestored |= dict.fromkeys(outcome.unrestored)
    if outcome.value is not None:
        return outcome.value
    return UnmaskResult(error=describe_end(outcome).partition("\n")[0])


def notes_on_search(
    last: UnmaskRound, mode: ModeName, rounds: int, seconds: float
) -> Iterator[Note]:
    """Yield notes on what the search for hidden breaks in one mode did not examine.

    There are none unless `last` is the last round. `rounds` and `seconds` are the limits that the
    search had.
    """
    if last.stopped in ("rounds", "seconds"):
        limit = f"{rounds} rounds" if last.stopped == "rounds" else f"{seconds:.0f} seconds"
        yield Note("unmask", f"Unmasking stopped after {limit}; more may hide ({mode} mode).")
    if last.stopped is not None:
        for stop in last.blocked:
            if not _only_raises(stop.place):
                code = quote(expression_at(stop.place))
                text = f"What lies behind {code} is not known: {stop.reason}."
                yield Note("unmask", text, stop.place)


def _only_raises(place: Position) -> bool:
    """Return whether a place is a `raise`, or the test of one: nothing lies behind it."""
    source = read_source(place.file)
    statement = source.statement_at(place.line) if source is not None else None
    return isinstance(statement, ast.Raise) or (isinstance(statement, ast.If) and raises(statement))


def add_values(known: Observations, more: Observations) -> Observations:
    """Return `known`, plus the values of `more` at places that `known` lacks."""
    spans = {place.position.span for place in known.places}
    fresh = (place for place in more.places if place.position.span not in spans)
    return replace(known, places=(*known.places, *fresh))
