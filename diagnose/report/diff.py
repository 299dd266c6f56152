"""Differences between two explanations: which causes are new, and which are gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding

from fullgraph.diagnose.explanation_data import Cause, ExplanationData
from fullgraph.diagnose.report.cause_block import text
from fullgraph.diagnose.report.data import cause_to_dict, from_dict
from fullgraph.diagnose.report.terminal import draw_plain, show
from fullgraph.diagnose.report.wording import count, format_position

Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Difference:
    """Causes that are new, gone or kept between two explanations."""

    new: tuple[Cause, ...]
    gone: tuple[Cause, ...]
    kept: tuple[Cause, ...]
    """The causes of the newer explanation that the older one had too."""
    reservations: tuple[str, ...] = ()
    """Why a cause may wrongly seem new or gone, one sentence each."""

    @property
    def sentence(self) -> str:
        """Return "2 new causes, 1 gone"."""
        if self.new:
            gone = f", {len(self.gone)} gone" if self.gone else ""
            return count(len(self.new), "new cause") + gone
        if self.gone:
            return f"{count(len(self.gone), 'cause')} gone, none new"
        return f"no cause new or gone, {len(self.kept)} kept"

    def to_dict(self) -> dict[str, Any]:
        """Return this difference as JSON-ready data; causes as in schema 1 of `explain`."""
        return {
            "schema": 1,
            "command": "diff",
            "sentence": self.sentence,
            "new": [cause_to_dict(c) for c in self.new],
            "gone": [cause_to_dict(c) for c in self.gone],
            "kept": [cause_to_dict(c) for c in self.kept],
            "reservations": list(self.reservations),
        }

    def __repr__(self) -> str:
        return draw_plain(lambda console: render_difference(self, console))


def diff(
    old: ExplanationData | Mapping[str, object], new: ExplanationData | Mapping[str, object]
) -> Difference:
    """Return what changed from `old` to `new`; each an explanation, or one saved as JSON.

    Two causes are the same if their category, file name, function and expression are equal.
    Among several such causes, those with the most similar source lines are paired. Raises
    FullgraphError for data that is not a saved explanation.
    """
    before = old if isinstance(old, ExplanationData) else from_dict(old)
    after = new if isinstance(new, ExplanationData) else from_dict(new)
    earlier = dict(enumerate(before.causes))
    kept: set[int] = set()
    for j, i in _pair_causes(before.causes, after.causes):
        kept.add(j)
        del earlier[i]
    return Difference(
        new=tuple(c for j, c in enumerate(after.causes) if j not in kept),
        gone=tuple(earlier.values()),
        kept=tuple(c for j, c in enumerate(after.causes) if j in kept),
        reservations=_caveats(before, after),
    )


def _pair_causes(old: tuple[Cause, ...], new: tuple[Cause, ...]) -> list[tuple[int, int]]:
    """Return (index into `new`, index into `old`) for each cause that is in both."""
    places: dict[Key, list[int]] = defaultdict(list)
    for i, cause in enumerate(old):
        places[_cause_key(cause)].append(i)
    ranked = sorted(
        (_cause_distance(old[i], cause), i, j)
        for j, cause in enumerate(new)
        for i in places[_cause_key(cause)]
    )
    found: dict[int, int] = {}
    taken: set[int] = set()
    for _, i, j in ranked:
        if j not in found and i not in taken:
            found[j] = i
            taken.add(i)
    return list(found.items())


def _cause_key(cause: Cause) -> Key:
    """Return what identifies a cause in two reports: category, file name, function, expression."""
    position = cause.position
    # Formatters change white space: ignore it.
    expression = "".join(cause.expression.split())
    return cause.category, PurePath(position.file).name, position.function, expression


def _cause_distance(one: Cause, other: Cause) -> tuple[bool, int, int]:
    """Return a sort key that is smaller the more alike two causes are.

    It consists of: whether Dynamo's reasons differ, how many source lines only one of them shows,
    and the difference of their line numbers.
    """
    lines = {text.strip() for _, text in one.source}
    others = {text.strip() for _, text in other.source}
    moved = abs(one.position.line - other.position.line)
    return one.gb_type != other.gb_type, len(lines ^ others), moved


def _caveats(before: ExplanationData, after: ExplanationData) -> tuple[str, ...]:
    """Return sentences on why a cause may wrongly seem new or gone.

    One reason is that an explanation was not finished, another that torch or the backend differs.
    """
    sentences = []
    for name, explanation in (("older", before), ("newer", after)):
        if explanation.error is not None or not explanation.complete:
            sentences.append(
                f"The {name} explanation was not finished: it may miss causes that exist."
            )
    for what, one, other in (
        ("torch", before.torch, after.torch),
        ("backend", before.backend, after.backend),
    ):
        if one != other:
            sentences.append(f"They were made with different settings: {what} {one}, then {other}.")
    return tuple(sentences)


def render_difference(difference: Difference, console: Console) -> None:
    """Draw which causes are new and which are gone."""
    sentence = difference.sentence
    parts: list[RenderableType] = [text(sentence[:1].upper() + sentence[1:], "bold")]
    for sign, style, causes in (("+", "red", difference.new), ("-", "green", difference.gone)):
        for cause in causes:
            title = f"{sign} {cause.category} · {format_position(cause.position)}"
            parts.append(text(title, style))
            if cause.expression:
                parts.append(Padding(text(cause.expression, "dim"), (0, 0, 0, 4)))
    parts += [text(reservation, "yellow") for reservation in difference.reservations]
    show(console, *parts)
