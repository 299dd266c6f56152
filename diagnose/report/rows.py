"""Rows of the table of causes: each with its effect and the one edit to make."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from fullgraph.compiler.errors import contain
from fullgraph.diagnose.explanation_data import Cause, Edit, ExplanationData, GraphInfo
from fullgraph.diagnose.report.wording import count, describe_count, rank_advice

_WORST = {"skipped": 0, "prefix": 1, "resumed": 2}
_FEW_LINES = 4
"""Number of new lines up to which an edit is shown as code."""
_SHORT = 56
"""Length of a block up to which an `if` and its only statement are put on one line."""
_HUNK = re.compile(r"@@ -(\d+)")
_IMPORT = re.compile(r"import\s|from\s\S+\simport\s")


@dataclass(frozen=True)
class RowRemedy:
    """What to do about a cause, short enough for a row."""

    label: str
    """"edit", "delete" or "set" before code, "try" before a sentence."""
    text: str
    """One line of code or a sentence; a few lines where an edit adds them."""
    is_code: bool
    rule: str = ""
    applicability: str = ""
    why: str = ""
    """The rule's sentence, shown if the code does not fit."""
    lines: int = 0
    """Number of new lines of an edit."""
    assumes: tuple[str, ...] = ()
    """What must hold for an unsafe edit, one clause each."""
    after: str = ""
    """The id of an earlier cause whose edit changes one of the same lines; "" if there is none."""

    @property
    def tag(self) -> str:
        """Return "FG201, unsafe"; "" without a rule."""
        kind = "idea" if self.applicability == "display" else self.applicability
        return ", ".join(filter(None, (self.rule, kind)))

    @property
    def long_tag(self) -> str:
        """Return "FG112, safe, 9 new lines", for a remedy shown as a sentence."""
        lines = count(self.lines, "new line") if self.lines > 1 else ""
        return ", ".join(filter(None, (self.tag, lines)))

    @property
    def condition(self) -> str:
        """Return "only if nobody needs this output"; "" for an edit that assumes nothing."""
        clauses = [f"only if {', and '.join(self.assumes)}"] if self.assumes else []
        if self.after:
            clauses.append(f"edit {self.after} first, then explain again: it changes the same line")
        return "; ".join(clauses)


@dataclass(frozen=True)
class Row:
    """A row of the table: the causes that one edit removes, mostly one."""

    causes: tuple[Cause, ...]
    effect: str
    remedy: RowRemedy

    @property
    def first(self) -> Cause:
        """Return the cause that the row shows."""
        return self.causes[0]


def cause_rows(explanation: ExplanationData) -> tuple[Row, ...]:
    """Return the rows of the table: skipped frames first, then causes that end many graphs.

    Hidden causes come last. Causes that the same edit removes share a row.
    """
    left = sorted(explanation.causes, key=_weight)
    rows = []
    while left:
        cause = left[0]
        edit = best_edit(cause)
        # An idea without a diff is followed at each place on its own.
        removed = set(edit.removes) if edit and (edit.diff or edit.settings) else set()
        group = tuple(c for c in left if c is cause or c.id in removed)
        left = [c for c in left if not any(c is taken for taken in group)]
        rows.append(Row(group, describe_effect(explanation, group), find_remedy(cause)))
    return tuple(_mark_overlaps(sorted(rows, key=lambda row: _weight(*row.causes))))


def _mark_overlaps(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows, with `RowRemedy.after` set if an earlier row's edit changes the same line."""
    taken: dict[tuple[str, int], str] = {}
    for row in rows:
        edit = best_edit(row.first)
        blocks = _changed_blocks(edit.diff) if edit is not None else []
        lines = [(edit.file, line) for block in blocks for line in block.old] if edit else []
        earlier = next((taken[line] for line in lines if line in taken), "")
        taken.update(dict.fromkeys(lines, row.first.id))
        yield replace(row, remedy=replace(row.remedy, after=earlier)) if earlier else row


def _weight(*causes: Cause) -> tuple[int, ...]:
    """Return the sort key of a row with these causes; the worst row comes first.

    The key compares: hidden or not, in default mode or not, what happens to the frame, the number
    of graphs ended, the number of breaks.
    """
    return (
        min(cause.hidden for cause in causes),
        min("default" not in cause.modes for cause in causes),
        min(_WORST.get(cause.frame, 2) for cause in causes),
        -sum(len(cause.graphs) for cause in causes),
        -sum(cause.events for cause in causes),
    )


def best_edit(cause: Cause) -> Edit | None:
    """Return the first edit that changes code and is more than an idea; None without edits.

    If there is no such edit, return the first of all edits.
    """
    ready = [edit for edit in cause.edits if edit.applicability != "display" and edit.diff]
    return next(iter((*ready, *cause.edits)), None)


def describe_effect(e: ExplanationData, causes: Sequence[Cause]) -> str:
    """Return the effect of the causes: "frame runs in eager", "3 → 2 graphs", "hidden by C2"."""
    first = causes[0]
    if first.hidden:
        return f"hidden by {first.behind}" if first.behind else "hidden"
    if "default" not in first.modes:
        return "fullgraph=True only"
    if first.frame == "skipped":
        return "frame runs in eager"
    if first.frame == "prefix":
        return "rest runs in eager"
    after = _graphs_without(e, causes)
    if after is not None and after != e.default.graphs:
        return f"{e.default.graphs} → {count(after, 'graph')}"
    ended = len({graph for cause in causes for graph in cause.graphs})
    return f"ends {count(ended, 'graph')}" if ended else describe_count(first)


def _graphs_without(e: ExplanationData, causes: Sequence[Cause]) -> int | None:
    """Return the number of graphs without these causes; None if that is not known."""
    graphs = [graph for graph in e.graphs if graph.phase == "forward"]
    if len(graphs) != e.default.graphs or any(c.frame != "resumed" or c.hidden for c in causes):
        return None
    ids = {cause.id for cause in causes}
    if any(cause.behind in ids for cause in e.causes) or e.fallbacks or e.crashes:
        return None
    visible = {c.id for c in e.causes if not c.hidden and "default" in c.modes}
    if visible <= ids and not any(cause.hidden for cause in e.causes):
        return 1
    by_id = {cause.id: cause for cause in e.causes}
    if not all(_resumes(one, other, by_id) for one, other in pairwise(graphs)):
        return None
    ended = {id for cause in causes for id in cause.graphs}
    if len(ended) != sum(cause.events for cause in causes):
        return None
    return len(graphs) - sum(graph.id in ended for graph in graphs[:-1])


def _resumes(one: GraphInfo, other: GraphInfo, causes: Mapping[str, Cause]) -> bool:
    """Return whether `other` begins where the frame resumes after the cause that ended `one`."""
    cause = causes.get(one.ended_by or "")
    if cause is None or cause.position.file != other.file or one.file != other.file:
        return False
    return other.line in cause.position.lines


def find_remedy(cause: Cause) -> RowRemedy:
    """Return the best remedy for `cause`."""
    return contain(lambda: _find_remedy(cause), lambda error: RowRemedy("try", error, False))


def _find_remedy(cause: Cause) -> RowRemedy:
    edit = best_edit(cause)
    if edit is None:
        for advice in rank_advice(cause.advice):
            return RowRemedy("try", advice.text, False)
        return RowRemedy("try", "No rule applies, and no fix is known.", False)
    return describe_edit(edit, cause)


def describe_edit(edit: Edit, cause: Cause) -> RowRemedy:
    """Return `edit` as its new lines of code, or as its rule's sentence if it has many."""
    return replace(_describe_change(edit, cause), assumes=edit.assumes)


def _describe_change(edit: Edit, cause: Cause) -> RowRemedy:
    """Return `edit` as a remedy; its assumptions are still missing."""
    new = [line for line in edit.after if line.strip() and not _IMPORT.match(line)]
    new = _join_header(new)
    away = edit.file != cause.position.file or edit.line not in cause.position.lines
    blocks = _changed_blocks(edit.diff)
    place = f"line {edit.line}: " if away and edit.file == cause.position.file else ""
    if len(blocks) == 1 and len(blocks[0].old) > 1:
        place = f"lines {_span(blocks[0].old)}: "
    why = edit.why[:1].upper() + edit.why[1:]
    if edit.settings and not edit.diff:
        return RowRemedy("set", "; ".join(edit.settings), True, edit.rule)
    if not new and edit.before:
        gone = " ".join(line.strip() for line in edit.before)
        return RowRemedy("delete", place + gone, True, edit.rule, edit.applicability, edit.why)
    if len(blocks) > 1:
        code = "\n".join(block.code for block in blocks)
        why = f"{why.rstrip('.')} ({len(blocks)} places, in the details)"
        if len(new) <= _FEW_LINES and edit.file == cause.position.file:
            return RowRemedy("edit", code, True, edit.rule, edit.applicability, why, len(new))
    elif len(new) == 1:
        return RowRemedy("edit", place + new[0], True, edit.rule, edit.applicability, edit.why)
    elif 1 < len(new) <= _FEW_LINES:
        code = place + "\n".join(new)
        return RowRemedy("edit", code, True, edit.rule, edit.applicability, edit.why, len(new))
    label = "edit" if edit.diff else "try"
    return RowRemedy(label, why, False, edit.rule, edit.applicability, why, len(new))


@dataclass(frozen=True)
class _Block:
    """Adjacent lines that a diff changes."""

    old: range
    """Line numbers of what is replaced; for an insertion, empty at the line that follows it."""
    new: tuple[str, ...]

    @property
    def code(self) -> str:
        """Return "line 12: new code", further lines below the first."""
        place = f"line {self.old.start}" if len(self.old) < 2 else f"lines {_span(self.old)}"
        lines = textwrap.dedent("\n".join(self.new)).splitlines()
        if sum(map(len, lines)) <= _SHORT:
            lines = _join_header(lines)
        return f"{place}: " + f"\n{' ' * (len(place) + 2)}".join(lines or ["(deleted)"])


def _span(lines: range) -> str:
    return f"{lines.start}–{lines.stop - 1}"


def _join_header(lines: list[str]) -> list[str]:
    """Return `["if x: return"]` for `["if x:", " return"]`; other lines unchanged."""
    if len(lines) == 2 and lines[0].endswith(":"):
        return [f"{lines[0]} {lines[1].strip()}"]
    return lines


def _changed_blocks(diff: str) -> list[_Block]:
    """Return the changed blocks of a diff, except those of only blank lines and imports."""
    found: list[_Block] = []
    old = start = 0
    changed: list[str] = []
    for line in (*diff.split("\n")[2:], " "):
        if changed and line[:1] not in ("-", "+"):
            texts = [text[1:] for text in changed if text[1:].strip()]
            if any(not _IMPORT.match(text.strip()) for text in texts):
                new = tuple(text[1:] for text in changed if text[0] == "+" and text[1:].strip())
                found.append(_Block(range(start, old), new))
            changed = []
        if match := _HUNK.match(line):
            old = int(match[1])
        elif line[:1] in ("-", "+"):
            start = start if changed else old
            changed.append(line)
            old += line[0] == "-"
        else:
            old += line[:1] == " "
    return found
