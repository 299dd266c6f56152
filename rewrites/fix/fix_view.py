"""HTML view of a `FixResult`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fullgraph.compiler.display import Section, Table, View
from fullgraph.rewrites.fix.edits import changed_lines
from fullgraph.rewrites.fix.fix_report import (
    describe_compiler_failure,
    describe_setting,
    describe_whole,
    format_place,
    proof_sentence,
    replacement_sentence,
    verdict,
)
from fullgraph.rewrites.fix.results import FixResult, Suggestion
from fullgraph.rewrites.rule import Applicability

_ADDED = re.compile(r"(?:^\+.*\n?)+", re.MULTILINE)
"""A block of added lines in a diff."""
_LINES_BELOW = (describe_whole, describe_setting, describe_compiler_failure)
_LINES = 4
"""Maximum number of lines of new code in a row of the table."""


def view(fixes: FixResult) -> View:
    """Return the verdict, a row for each suggestion and each cause that stays, and the diffs."""
    title, _, torch = verdict(fixes).partition(" · torch ")
    edits = [suggestion for suggestion in fixes.suggestions if suggestion.diff]
    rows = [
        (
            f"`{format_place(s.file, s.line)}`",
            f"`{s.cause}`",
            f"{s.rule}, {s.applicability.value}{_note(s)}",
            s.proof.state.value,
        )
        for s in edits
    ]
    settings: dict[tuple[str, str], list[str]] = {}
    for s in fixes.suggestions:
        if not s.diff:
            settings.setdefault((s.why, s.proof.state.value), []).append(str(s.line))
    unfixed = [
        (f"`{format_place(u.file, u.line)}`", f"`{u.cause}`", f"{u.reason}.") for u in fixes.unfixed
    ]
    return View(
        title,
        _mood_of(fixes),
        tuple(filter(None, (describe(fixes) for describe in _LINES_BELOW))),
        (
            Table(("line", "expression", "edit", "proof"), rows, [_new_code(s) for s in edits]),
            Table(
                ("setting", "for lines", "proof"),
                [(why, ", ".join(lines), proof) for (why, proof), lines in settings.items()],
            ),
            Table(("not fixed", "expression", "because"), unfixed),
        ),
        list(_sections(fixes)),
        footer=f"torch {torch}" if torch else "",
    )


def _note(suggestion: Suggestion) -> str:
    """Return what the table adds to an edit's rule: ", not applied", ", else FG113", or ""."""
    if suggestion.replaced_by:
        return f", else {suggestion.replaced_by}"
    return "" if suggestion.accepted else ", not applied"


def _new_code(suggestion: Suggestion) -> str:
    """Return the new code of an edit; of a long or scattered edit, a sentence on what it does."""
    lines = [line for line in changed_lines(suggestion.diff, "+") if line.strip()]
    code = "\n".join(lines)
    is_one_block = len(_ADDED.findall(suggestion.diff.partition("\n@@")[2])) == 1
    is_code = is_one_block and len(lines) <= _LINES and "`" not in code
    edit = f"`{code}`" if is_code else suggestion.why
    assumes = ", and ".join(suggestion.assumes)
    return f"{edit} {'only' if is_code else 'Only'} if {assumes}." if assumes else edit


def _mood_of(fixes: FixResult) -> str:
    """Return "bad", "mixed" or "good": the program fails, has causes left, or has none.

    It sets the colour of the verdict.
    """
    if fixes.before.error is not None:
        return "bad"
    return "mixed" if fixes.after.causes else "good"


def _sections(fixes: FixResult) -> Iterator[Section]:
    """Yield a section for each edit; it is open if `Fixes.apply` writes the edit by default."""
    for s in (suggestion for suggestion in fixes.suggestions if suggestion.diff):
        title = f"{s.rule} {s.name} · `{format_place(s.file, s.line)}` · {s.applicability.value}"
        is_open = s.accepted and s.applicability is Applicability.SAFE
        yield Section(title, tuple(_paragraphs(s)), s.diff, is_diff=True, is_open=is_open)


def _paragraphs(suggestion: Suggestion) -> Iterator[str]:
    """Yield reason, assumptions and proof of a suggestion."""
    yield suggestion.why
    if suggestion.assumes:
        yield f"Assumes that {', and that '.join(suggestion.assumes)}."
    yield proof_sentence(suggestion)
    if suggestion.replaced_by:
        yield replacement_sentence(suggestion)
