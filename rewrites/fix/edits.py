"""The rules' edits for the causes of an explanation, as plain data that its report shows."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from fullgraph.compiler.events import Position
from fullgraph.compiler.isolation import run_isolated
from fullgraph.compiler.program import Program
from fullgraph.compiler.sources import index_live_functions, is_user_code
from fullgraph.diagnose.explain import explain as explain_causes
from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.explanation_data import Cause, Edit
from fullgraph.rewrites.analysis import Facts, observe
from fullgraph.rewrites.fix.offers import EditKey, Offer, Offers, places_to_observe, propose
from fullgraph.rewrites.fix.results import unified_diff


@functools.wraps(explain_causes)
@index_live_functions()
def explain(*args: Any, **options: Any) -> Explanation:
    return explain_causes(*args, **{"offer": EditOffers(), **options})


class EditOffers:
    """Adds the rules' edits to explanations of one program, as they grow."""

    def __init__(self) -> None:
        self._places: set[Position] = set()
        self._facts = Facts()
        self._runs = 0

    def __call__(self, program: Program, explanation: Explanation) -> Explanation:
        """Return `explanation` with edits; unseen places cost one run of the program in eager."""
        causes = [cause for cause in explanation.causes if is_user_code(cause.position.file)]
        if not causes or explanation.error is not None:
            return explanation
        places = set(places_to_observe(causes))
        if not places <= self._places:
            self._places = places
            self._facts = observe_program(program, places)
            self._runs += 1
        runs = (*explanation.runs, ("values for edits", self._runs))
        return offer_edits(replace(explanation, runs=runs), propose(causes, self._facts))


def observe_program(program: Program, places: Collection[Position]) -> Facts:
    """Return what the values at `places` were in one run in eager, in isolation."""
    outcome = run_isolated(
        lambda emit: observe(lambda: program.run(program.target), tuple(places)),
        objects=program.objects(),
    )
    return outcome.value or Facts()


def offer_edits(explanation: Explanation, answers: Collection[Offers]) -> Explanation:
    """Return `explanation` with the offered edits in its causes, best first."""
    removes: dict[EditKey, list[str]] = {}
    for answer in answers:
        for offer in answer.offers:
            removes.setdefault(offer.key, []).append(answer.cause.id)
    edits = {
        answer.cause.id: tuple(_edit(offer, removes[offer.key]) for offer in answer.offers)
        for answer in answers
    }
    causes = tuple(_with_edits(cause, edits) for cause in explanation.causes)
    return replace(explanation, causes=causes)


def _with_edits(cause: Cause, edits: Mapping[str, tuple[Edit, ...]]) -> Cause:
    return replace(cause, edits=edits.get(cause.id, ()))


def _edit(offer: Offer, removes: Collection[str]) -> Edit:
    rewrite, document = offer.rewrite, offer.document
    diff = unified_diff(document.file, document.text, offer.text)
    return Edit(
        rule=offer.rule.code,
        file=document.file,
        line=offer.at.line,
        before=_lines(diff, "-"),
        after=_lines(diff, "+"),
        why=rewrite.why,
        diff=diff,
        applicability=rewrite.applicability.value,
        assumes=rewrite.assumes,
        settings=tuple(f"{name} = {value!r}" for name, value in rewrite.settings.items()),
        removes=tuple(removes),
    )


def _lines(diff: str, sign: str) -> tuple[str, ...]:
    """Return the removed ("-") or added ("+") lines of a diff, each hunk at the left margin."""
    lines: list[str] = []
    for hunk in diff.split("\n@@")[1:]:
        changed = "\n".join(line[1:] for line in hunk.split("\n")[1:] if line.startswith(sign))
        lines += textwrap.dedent(changed).splitlines()
    return tuple(lines)
