"""The failing function alone: down the calls, as long as one callee fails by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fullgraph.minifier.reduce.source.entry_point import find_entry, replace_entry
from fullgraph.minifier.reduce.source.observe import Called, Facts
from fullgraph.minifier.reduce.source.proposals import ProposalSearch


def focus_on_callee(search: ProposalSearch) -> None:
    """Let the text call a function of its own with recorded arguments, where that fails too.

    A callee whose arguments cannot be written is passed over for those that it calls.
    """
    current = ""
    while True:
        facts = search.facts
        callees = list(_callees(facts, current or _root(facts)))
        if not current:
            callees = [*_roots(facts), *callees]
        texts = {
            candidate: called.name
            for called in callees
            if (candidate := search.prepare(_alone(search.problem.current, called))) is not None
        }
        if not search.problem.first(texts):
            return
        current = texts[search.problem.current]


def _alone(text: str, called: Called) -> str | None:
    before = find_entry(ast.parse(text))
    if before is not None and ast.unparse(before.model) == called.model:
        return None
    alone = replace_entry(text, called.model, called.inputs)
    if alone is None:
        return None
    bound = alone.startswith("import torch\n") or "\nimport torch\n" in alone
    return alone if bound else f"import torch\n{alone}"


def _root(facts: Facts) -> str:
    """The function that the entry calls."""
    roots = [called for called in facts.calls if not called.caller]
    return roots[0].name if roots else ""


def _roots(facts: Facts) -> Iterator[Called]:
    """The called function itself, where it can be written in another way than it is."""
    for called in facts.calls:
        if not called.caller and called.model:
            yield called
            return


def _callees(facts: Facts, caller: str) -> Iterator[Called]:
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
