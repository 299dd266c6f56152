"""Comments on a pull request's changed lines, from findings and from proved edits."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fullgraph.rewrites.review.changed_lines import ChangedLines
from fullgraph.rewrites.review.line_edits import LineEdit, edit_of, edits_in
from fullgraph.rewrites.review.links import help_uri
from fullgraph.rewrites.review.paths import relative_path
from fullgraph.rewrites.review.review import Remark, Review


@dataclass(frozen=True)
class Comment:
    """A review comment on the lines `first` to `last` of a file."""

    path: str
    first: int
    last: int
    body: str
    fingerprint: str
    """Equal for the same comment on a later commit."""


@dataclass(frozen=True)
class ProvedEdit:
    """An edit that `fix` applied and proved."""

    path: str
    rule: str
    cause: str
    why: str
    applicability: str
    assumes: tuple[str, ...]
    edits: tuple[LineEdit, ...]

    @property
    def lines(self) -> range:
        """The line numbers from the first edit to the last."""
        return range(self.edits[0].first, self.edits[-1].last + 1)


def proved_edits(fixes: Mapping[str, Any], review: Review) -> list[ProvedEdit]:
    """Return the edits that `fullgraph fix` proved and accepted in files of the repository.

    `fixes` is the JSON of `fullgraph fix`. An edit that another one replaces is left out.
    """
    found = []
    for one in fixes["suggestions"]:
        path = relative_path(one["file"], review.root)
        proved = one["accepted"] and one["proof"]["state"] == "proved" and one["diff"]
        if not proved or one.get("replaced_by") or path.startswith("/"):
            continue
        lines = (review.root / path).read_text(encoding="utf-8").split("\n")
        edits = tuple(edits_in(one["diff"], lines))
        found.append(
            ProvedEdit(
                path,
                *(one["rule"], one["cause"], one["why"], one["applicability"]),
                tuple(one["assumes"]),
                edits,
            )
        )
    return found


def make_comments(
    review: Review, changed: ChangedLines, proved: Iterable[ProvedEdit]
) -> list[Comment]:
    """Return a comment for each finding and each proved edit on changed lines.

    A finding's comment shows a proved edit of its lines, if there is one, and else the edit that
    the static check offers.
    """
    proved = list({(one.path, one.edits): one for one in proved}.values())
    used: list[ProvedEdit] = []
    comments = []
    for remark in review.remarks:
        if not changed.holds(remark) or remark.finding.cell is not None:
            continue
        edit = next((one for one in proved if _is_about(one, remark)), None)
        if edit is not None and edit in used:
            continue
        used += [edit] if edit is not None else []
        comments.append(_comment_on(remark, edit, review, changed.of(remark.path)))
    for one in proved:
        lines = changed.of(one.path)
        if one not in used and any(number in lines for number in one.lines):
            comments.append(_comment_of(one, lines))
    return comments


def _is_about(edit: ProvedEdit, remark: Remark) -> bool:
    """Return whether an edit changes a line of a finding."""
    finding = remark.finding
    return edit.path == remark.path and any(
        number in edit.lines for number in range(finding.line, finding.end_line + 1)
    )


def _comment_on(
    remark: Remark, proved: ProvedEdit | None, review: Review, lines: Collection[int]
) -> Comment:
    """Return the review comment on a finding.

    It shows the edit `proved`; if that is None, the fix that the check offers, if there is one.
    `lines` are the changed lines of the file.
    """
    finding = remark.finding
    likely = " (likely)" if finding.certainty == "likely" else ""
    head = f"**[{finding.code}]({help_uri(finding.code)})** {finding.message}.{likely}"
    first, last = _first_changed_lines(finding.line, finding.end_line, lines)
    if proved is not None:
        parts = [head, _claim(proved)]
        return _with_edits(
            remark.path, proved.edits, parts, lines, (first, last), remark.fingerprint
        )
    merged = review.lines.merged_edit(finding)
    fix = finding.fix
    if fix is None or merged is None:
        return Comment(remark.path, first, last, head, remark.fingerprint)
    assumed = f" Assumes that {'; '.join(fix.assumes)}." if fix.assumes else ""
    claim = f"{fix.rule}, {fix.applicability}, not run: {fix.message}{assumed}"
    edit = edit_of(review.lines.of(finding), merged)
    return _with_edits(
        remark.path, (edit,), [head, claim], lines, (first, last), remark.fingerprint
    )


def _comment_of(edit: ProvedEdit, lines: Collection[int]) -> Comment:
    """Return the review comment for a proved edit where `check` has no finding.

    `lines` are the changed lines of the file.
    """
    head = f"`{edit.cause}` breaks the graph or recompiles when the program runs."
    key = "\0".join((edit.path, edit.rule, edit.cause))
    fingerprint = f"{hashlib.sha256(key.encode()).hexdigest()[:16]}:proved"
    place = _first_changed_lines(edit.lines[0], edit.lines[-1], lines)
    return _with_edits(edit.path, edit.edits, [head, _claim(edit)], lines, place, fingerprint)


def _claim(edit: ProvedEdit) -> str:
    assumed = f" Assumes that {'; '.join(edit.assumes)}." if edit.assumes else ""
    return (
        f"{edit.rule}, {edit.applicability}, **proved**: {edit.why}{assumed} "
        "The edited program ran and behaved as before."
    )


def _with_edits(
    path: str,
    edits: tuple[LineEdit, ...],
    parts: list[str],
    lines: Collection[int],
    place: tuple[int, int],
    fingerprint: str,
) -> Comment:
    """Return a comment with the paragraphs `parts` and the edits, as a suggestion or as diffs.

    It is a suggestion, which GitHub can apply, if there is one edit and all its lines are in
    `lines`, the changed lines. A comment with diffs is put on the lines `place`: first and last.
    """
    if len(edits) == 1 and edits[0].is_within(lines):
        body = "\n\n".join([*parts, edits[0].suggestion()])
        return Comment(path, edits[0].first, edits[0].last, body, fingerprint)
    body = "\n\n".join([*parts, *(edit.diff() for edit in edits)])
    return Comment(path, *place, body, fingerprint)


def _first_changed_lines(first: int, last: int, lines: Collection[int]) -> tuple[int, int]:
    """Return the first and the last line of the first changed lines among `first` to `last`.

    For lines 3 to 9 of which 4, 5 and 8 are changed, it is (4, 5). `lines` are the numbers of all
    changed lines of the file.
    """
    start = next(number for number in range(first, last + 1) if number in lines)
    end = start
    while end < last and end + 1 in lines:
        end += 1
    return start, end
