"""What a change does to the registered programs, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any


@dataclass(frozen=True)
class EntryReport:
    """What changed for one program that is registered in pyproject.toml: before and after."""

    entry: str
    verdict: str = ""
    difference: Mapping[str, Any] | None = None
    """The change, as in the JSON of `explain --against`; None if the program is new."""
    is_new: bool = False
    error: str = ""
    """Why the program could not be explained, one sentence; "" if it could."""


def summarize(reports: Sequence[EntryReport], comments: int) -> str:
    """Return the summary of a review as Markdown; "" if there is nothing to report.

    `comments` is the number of comments on lines. Nothing is to report if it is 0 and `reports` is
    empty.
    """
    if not reports and not comments:
        return ""
    count = f"{comments} comment{'s' * (comments != 1)} on changed lines"
    parts = [f"### torch.compile\n\n{count}."]
    parts += [_section(one) for one in reports]
    return "\n\n".join(parts)


def _section(report: EntryReport) -> str:
    """Return the part of the summary about one program: its new and gone causes."""
    if report.error:
        return f"**{_code(report.entry)}** could not be explained: {_code(report.error)}"
    if report.difference is None:
        return f"**{_code(report.entry)}**, new: {report.verdict}"
    lines = [f"**{_code(report.entry)}**: {report.difference['sentence']}. {report.verdict}"]
    for sign, name in (("new", "new"), ("gone", "gone")):
        lines += [_row(sign, cause) for cause in report.difference[name]]
    lines += [f"- {one}" for one in report.difference["reservations"]]
    return "\n".join(lines)


def _row(sign: str, cause: Mapping[str, Any]) -> str:
    """Return the line of the summary about a cause: "- new: `net.py:7` …".

    `sign` is "new" or "gone".
    """
    place = f"{PurePath(cause['file']).name}:{cause['line']}"
    return f"- {sign}: {_code(place)} {cause['category']}: {cause['message']}"


def _code(text: str) -> str:
    """Return a text in backquotes on one line."""
    return f"`{' '.join(text.replace('`', chr(39)).split())}`"
