"""HTML view of a `FixResult`."""

from __future__ import annotations

from collections.abc import Iterator

from fullgraph.compiler.display import Section, Table, View
from fullgraph.rewrites.fix.fix_report import format_place, proof_sentence, verdict
from fullgraph.rewrites.fix.results import FixResult, Suggestion
from fullgraph.rewrites.rule import Applicability


def view(fixes: FixResult) -> View:
    """Return the verdict, a row for each suggestion and each cause that stays, and the diffs."""
    title, _, torch = verdict(fixes).partition(" · torch ")
    edits = [
        (
            f"`{format_place(s.file, s.line)}`",
            f"`{s.cause}`",
            s.rule,
            s.applicability.value if s.accepted else f"{s.applicability.value}, not applied",
            s.proof.state.value,
        )
        for s in fixes.suggestions
    ]
    unfixed = [
        (f"`{format_place(u.file, u.line)}`", f"`{u.cause}`", f"{u.reason}.") for u in fixes.unfixed
    ]
    return View(
        title,
        _mood_of(fixes),
        (
            Table(("line", "expression", "rule", "edit", "proof"), edits),
            Table(("not fixed", "expression", "because"), unfixed),
        ),
        list(_sections(fixes)),
        footer=f"torch {torch}" if torch else "",
    )


def _mood_of(fixes: FixResult) -> str:
    """Return the colour of the verdict."""
    if fixes.before.error is not None:
        return "bad"
    return "mixed" if fixes.after.causes else "good"


def _sections(fixes: FixResult) -> Iterator[Section]:
    """Yield each suggestion; open is what `Fixes.apply` writes."""
    for s in fixes.suggestions:
        title = f"{s.rule} {s.name} · `{format_place(s.file, s.line)}` · {s.applicability.value}"
        is_open = s.accepted and s.applicability is Applicability.SAFE
        yield Section(title, tuple(_paragraphs(s)), s.diff, is_diff=True, is_open=is_open)


def _paragraphs(suggestion: Suggestion) -> Iterator[str]:
    """Yield reason, assumptions and proof of a suggestion."""
    yield suggestion.why
    if suggestion.assumes:
        yield f"Assumes that {', and that '.join(suggestion.assumes)}."
    yield proof_sentence(suggestion)
