"""Reducer that makes a callee of the program the entry point, with recorded arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fullgraph.minifier.reduce.source.entry_point import find_entry, replace_entry
from fullgraph.minifier.reduce.source.observe import ObservedRun, RecordedCall
from fullgraph.minifier.reduce.source.proposals import ProposalSearch


def focus_on_callee(search: ProposalSearch) -> None:
    """Move the entry point to a callee that fails alone, again and again.

    If the arguments of a callee cannot be written as source, its own callees are tried instead.
    """
    current = ""
    while True:
        facts = search.facts
        callees = list(_callees(facts, current or _called_name(facts)))
        if not current:
            callees = [*_root_calls(facts), *callees]
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
    """Return the text with `called` as its entry point.

    None if that is the entry point already, or if the text has none.
    """
    before = find_entry(ast.parse(text))
    if before is not None and ast.unparse(before.model) == called.model:
        return None
    alone = replace_entry(text, called.model, called.inputs)
    if alone is None:
        return None
    bound = alone.startswith("import torch\n") or "\nimport torch\n" in alone
    return alone if bound else f"import torch\n{alone}"


def _called_name(facts: ObservedRun) -> str:
    """Return the name of the function that the entry point calls; "" if unknown."""
    roots = [called for called in facts.calls if not called.caller]
    return roots[0].name if roots else ""


def _root_calls(facts: ObservedRun) -> Iterator[RecordedCall]:
    """Yield the call that the entry point makes, if it can be written as source."""
    for called in facts.calls:
        if not called.caller and called.model:
            yield called
            return


def _callees(facts: ObservedRun, caller: str) -> Iterator[RecordedCall]:
    """Yield the recorded calls inside calls of `caller`, breadth first, one per function."""
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
