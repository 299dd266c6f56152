"""Reducer that makes a callee of the program the entry point, with recorded arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fullgraph.minifier.reduce.source.entry_point import find_entry, replace_entry
from fullgraph.minifier.reduce.source.observe import ObservedRun, RecordedCall
from fullgraph.minifier.reduce.source.proposals import ProposalSearch


def focus_on_callee(search: ProposalSearch) -> None:
    """Make a function that the program calls the new program, if it fails alone; then repeat.

    It gets the arguments of its first call. If they cannot be written as source, the functions that
    it calls are tried instead.
    """
    current = ""
    while True:
        facts = search.facts
        callees = list(_callees(facts, current or _entry_point_function(facts)))
        if not current:
            callees = [*_entry_point_calls(facts), *callees]
        texts = {
            candidate: called.name
            for called in callees
            if (candidate := search.prepare(_call_alone(search.problem.current, called)))
            is not None
        }
        if not search.problem.first(texts):
            return
        current = texts[search.problem.current]


def _call_alone(text: str, called: RecordedCall) -> str | None:
    """Return `text` with an entry point that makes only the recorded call `called`.

    None if the entry point makes that call already, or if there is no entry point.
    """
    before = find_entry(ast.parse(text))
    if before is not None and ast.unparse(before.model) == called.model:
        return None
    alone = replace_entry(text, called.model, called.inputs)
    if alone is None:
        return None
    bound = alone.startswith("import torch\n") or "\nimport torch\n" in alone
    return alone if bound else f"import torch\n{alone}"


def _entry_point_function(facts: ObservedRun) -> str:
    """Return the name of the function that the entry point calls, "Net.forward"; "" if unknown."""
    roots = [called for called in facts.calls if not called.caller]
    return roots[0].name if roots else ""


def _entry_point_calls(facts: ObservedRun) -> Iterator[RecordedCall]:
    """Yield the recorded call that the entry point makes, unless it cannot be written as source."""
    for called in facts.calls:
        if not called.caller and called.model:
            yield called
            return


def _callees(facts: ObservedRun, caller: str) -> Iterator[RecordedCall]:
    """Yield the first recorded call of each function that the function `caller` calls.

    A call that cannot be written as source is replaced by the calls that it makes.
    """
    seen: set[str] = set()
    waiting = [caller]
    while waiting:
        name = waiting.pop(0)
        for called in facts.calls:
            if called.caller != name or called.name in seen:
                continue
            seen.add(called.name)
            if called.model:
                yield called
            else:
                waiting.append(called.name)
