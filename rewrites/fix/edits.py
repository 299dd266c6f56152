"""The rules' edits for the causes of an explanation, as plain data that its report shows."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import libcst as cst

from fullgraph.compiler.events import Position
from fullgraph.compiler.isolation import Deadline, TimeUp
from fullgraph.compiler.observe import FunctionValues
from fullgraph.compiler.program import Program
from fullgraph.compiler.sources import index_live_functions, is_user_code
from fullgraph.diagnose.explain import explain as explain_causes
from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.explanation_data import Cause, Edit, GraphInfo, Verification
from fullgraph.diagnose.verdict import verdict
from fullgraph.rewrites.fix.causes import recompile_causes, takes_most
from fullgraph.rewrites.fix.offers import Offer, Offers, places_to_observe, propose
from fullgraph.rewrites.fix.program_facts import observe_program
from fullgraph.rewrites.proof import verify_inductor

_MISCOMPILED = re.compile(r"\buniform\(")
"""Inductor of torch 2.13 reads a traced float of `random`, a float64, as a float32."""
_SINGULAR = re.compile(
    r"[\w)\]] / |\b(div|divide|sqrt|rsqrt|log\w*|pow|acos|asin|norm|reciprocal)\("
)
"""Finds operations whose gradient is not finite everywhere."""
_OF_BACKWARD = {
    f"torch._dynamo.config.{name}" for name in ("compiled_autograd", "trace_autograd_ops")
}
"""Settings that help only where the compiled function runs its own backward."""

VERIFY_SECONDS = 120.0
"""Limit of a verification, in seconds of wall time."""

_Identity = tuple[str, str, tuple[tuple[str, object], ...]]
"""What makes two offers the same edit: the rule's code, the new text and the settings."""


@functools.wraps(explain_causes)
@index_live_functions()
def explain(*args: Any, **options: Any) -> Explanation:
    return explain_causes(*args, **{"offer": EditOffers(), **options})


class EditOffers:
    """Callable that adds the rules' edits to the successive explanations of one program."""

    def __init__(self) -> None:
        self._places: set[Position] = set()
        self._facts = FunctionValues()
        self._answers: dict[Cause, Offers] = {}
        self._runs = 0

    def __call__(
        self, program: Program, explanation: Explanation, deadline: Deadline, verify: bool
    ) -> Explanation:
        """Return `explanation` with edits; with `verify`, also run the program with Inductor.

        Only a program that `fullgraph=True` captures runs, for `VERIFY_SECONDS` at most. Causes at
        places that were not observed yet cost one run of the program in eager. Both runs end with
        `deadline` at the latest, and then tell nothing.
        """
        if explanation.error is not None:
            return explanation
        if verify and explanation.fullgraph.ok:
            with suppress(TimeUp):
                check = verify_inductor(program, deadline.within(VERIFY_SECONDS))
                verified = replace(explanation, verification=Verification(check.ok, check.detail))
                explanation = replace(verified, verdict=verdict(verified))
        causes = [cause for cause in explanation.causes if is_user_code(cause.position.file)]
        causes += recompile_causes(explanation)
        if not causes:
            return explanation
        places = set(places_to_observe(causes))
        if not places <= self._places:
            self._places = places
            self._facts = observe_program(program, places, deadline)
            self._answers.clear()
            self._runs += 1
        new = [cause for cause in causes if cause not in self._answers]
        found = propose(new, self._facts, entry=program.position)
        self._answers.update(zip(new, found, strict=True))
        runs = (*explanation.runs, ("values for edits", self._runs))
        answers = [self._answers[cause] for cause in causes]
        return offer_edits(replace(explanation, runs=runs), answers)


def offer_recompile_edits(explanation: Explanation) -> Explanation:
    """Return `explanation` with the edits for its recompiles that rules offer by source alone."""
    answers = propose(recompile_causes(explanation), FunctionValues())
    return offer_edits(explanation, answers)


def offer_edits(explanation: Explanation, answers: Collection[Offers]) -> Explanation:
    """Return `explanation` with edits in its causes and recompiles, the best first.

    `answers` holds the rules' offers for each.
    """
    cause_ids: dict[_Identity, dict[str, None]] = {}
    for answer in answers:
        for offer in answer.offers:
            cause_ids.setdefault(_identity(offer), {})[answer.cause.id] = None
    stuck = {_function_of(answer.cause) for answer in answers if "fullgraph" in answer.cause.modes}
    useful = [
        replace(one, offers=tuple(o for o in one.offers if not _is_loss(o, explanation.graphs)))
        for one in answers
    ]
    edits = {answer.cause.id: tuple(_edits_of(answer, cause_ids, stuck)) for answer in useful}
    causes = tuple(replace(c, edits=edits.get(c.id, ())) for c in explanation.causes)
    recompiles = tuple(
        replace(one, edits=edits.get(f"R{number}", ()))
        for number, one in enumerate(explanation.recompiles, 1)
    )
    return replace(explanation, causes=causes, recompiles=recompiles)


def _identity(offer: Offer) -> _Identity:
    """Return a key that is equal for offers of the same edit."""
    return *offer.key, tuple(offer.rewrite.settings.items())


def _function_of(cause: Cause) -> tuple[str, str]:
    return cause.position.file, cause.position.function


def _edits_of(
    answer: Offers,
    cause_ids: Mapping[_Identity, Iterable[str]],
    stuck: Collection[tuple[str, str]],
) -> list[Edit]:
    """Return the edits for one cause, the best first; `answer` holds the offers for it.

    Offers that need a proof to be trusted are left out, because no edit has run yet; so are
    settings that cannot help. `cause_ids` holds for each edit the ids of all causes for which it is
    offered; `stuck` are the functions with a cause that `fullgraph=True` has, too.
    """
    asked = [o for o in answer.offers if o.rewrite.replacements or _helps(o, answer.cause, stuck)]
    asked = [offer for offer in asked if not offer.rewrite.needs_both_branches]
    inside = [offer for offer in asked if offer.rewrite.replacements and not offer.rule.boundary]
    asked = [offer for offer in asked if not (inside and offer.rule.boundary)]
    offers = {_identity(offer): offer for offer in asked}
    edits = [(offer, _edit(offer, cause_ids[identity])) for identity, offer in offers.items()]
    known = [(o, e) for o, e in edits if not _MISCOMPILED.search("\n".join(e.after))]
    return [edit for _, edit in sorted(known, key=lambda pair: _rank(*pair))]


def _helps(offer: Offer, cause: Cause, stuck: Collection[tuple[str, str]]) -> bool:
    """Return whether the settings of an offer may remove `cause`; False without settings.

    Settings named `capture_…` do not make a function whole that breaks under `fullgraph=True`,
    which sets them itself.
    """
    settings = offer.rewrite.settings
    captures = all(".config.capture_" in name for name in settings)
    useless = captures and _function_of(cause) in stuck
    return bool(settings) and not useless and not _OF_BACKWARD & settings.keys()


def _is_loss(offer: Offer, graphs: Iterable[GraphInfo]) -> bool:
    """Return whether an offer takes most operators out of the graphs, with the function around."""
    ranges = (
        offer.document.position(node).lines
        for node in offer.rewrite.replacements
        if offer.rule.boundary > 1 and isinstance(node, cst.FunctionDef)
    )
    taken = next(ranges, range(0))
    forward = [graph for graph in graphs if graph.phase == "forward"]
    left = [g.ops for g in forward if g.file != offer.document.file or g.line not in taken]
    return takes_most(sum(graph.ops for graph in forward), sum(left))


def _rank(offer: Offer, edit: Edit) -> tuple[object, ...]:
    """Return the sort key by which the edit that a person would choose comes first.

    `edit` is made from `offer`.
    """
    return (
        edit.applicability == "display",
        not edit.diff,
        *offer.preference,
        -len(edit.removes),
        len(edit.before) + len(edit.after),
    )


def _edit(offer: Offer, cause_ids: Iterable[str]) -> Edit:
    """Return an offer as an `Edit`; `cause_ids` are the ids of the causes that it removes."""
    document = offer.document
    before, after = (changed_lines(offer.diff, sign) for sign in "-+")
    assumes = (*offer.rewrite.assumes, *_finite_sides(after))
    rewrite = replace(offer.rewrite, assumes=assumes)
    return Edit(
        rule=offer.rule.code,
        file=document.file,
        line=offer.at.line,
        before=before,
        after=after,
        why=rewrite.why,
        diff=offer.diff,
        applicability=rewrite.applicability.value,
        assumes=rewrite.assumes,
        settings=tuple(f"{name} = {value!r}" for name, value in rewrite.settings.items()),
        removes=tuple(cause_ids),
    )


def _finite_sides(lines: Iterable[str]) -> tuple[str, ...]:
    """Return what must hold of new code, which no proof has run, that computes what it drops."""
    code = "\n".join(lines)
    risky = "torch.where(" in code and _SINGULAR.search(code)
    return ("the gradient of the side not chosen is finite",) if risky else ()


def changed_lines(diff: str, sign: str) -> tuple[str, ...]:
    """Return the removed ("-") or added ("+") lines of a diff, each hunk at the left margin."""
    lines: list[str] = []
    for hunk in diff.split("\n@@")[1:]:
        changed = "\n".join(line[1:] for line in hunk.split("\n")[1:] if line.startswith(sign))
        lines += textwrap.dedent(changed).splitlines()
    return tuple(lines)
