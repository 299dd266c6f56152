"""Findings of a static check."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from fullgraph.rewrites.check.constructs import load_table
from fullgraph.rewrites.rule import Applicability

SCHEMA = 1


class Certainty(StrEnum):
    """Whether a finding rests on known values or on a guess."""

    PROVED = "proved"
    """The source, or the facts of an explained run, show what the values are."""
    LIKELY = "likely"
    """The values are guessed from names and usage; reported only under `strict`."""


@dataclass(frozen=True)
class TextEdit:
    """Replacement of a span of a file's text. Columns count UTF-8 bytes from 0, as in `ast`."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True)
class Fix:
    """A rule's edit for a finding."""

    rule: str
    """Code of the rule: "FG301"."""
    applicability: Applicability
    message: str
    """What the edit does, one sentence."""
    assumes: tuple[str, ...] = ()
    """What must hold for the edit to be correct and the source does not show, one clause each."""
    edits: tuple[TextEdit, ...] = ()
    """Edits of the finding's file, in order and without overlaps; empty if the fix is a setting."""


@dataclass(frozen=True)
class Finding:
    """An expression that breaks a graph, skips a frame or recompiles."""

    code: str
    """"FGB101" for a graph break, "FGR101" for a recompile; codes never change."""
    file: str
    line: int
    """1-based; in a notebook, counted from the start of the cell."""
    column: int
    """0-based offset in UTF-8 bytes, as in `ast`."""
    end_line: int
    end_column: int
    message: str
    certainty: Certainty
    category: str
    """Category of the cause, the same as in `explain`: "data-dependent branch"."""
    function: str
    """Qualified name of the function around the expression: "Net.forward"."""
    modes: tuple[str, ...] = ("default", "fullgraph")
    """"default" if it breaks or recompiles with `fullgraph=False`, "fullgraph" if with
    `fullgraph=True`."""
    cell: int | None = None
    """Number of the notebook's code cell, from 1; None in a Python file."""
    fix: Fix | None = None

    @property
    def place(self) -> tuple[str, int, int, int, str]:
        """Sort key: file, cell, line, column, code."""
        return self.file, self.cell or 0, self.line, self.column, self.code


@dataclass(frozen=True)
class Unreadable:
    """A path that could not be checked."""

    path: str
    reason: str
    """One sentence without the path."""

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True)
class CheckResult:
    """The findings of one check."""

    findings: tuple[Finding, ...]
    unreadable: tuple[Unreadable, ...]
    files: int
    """Number of files that were read."""
    torch: str
    """Version of torch that the findings hold for: "2.13"."""
    python: str
    """Version of Python that the findings hold for: "3.11"."""
    strict: bool = False

    @property
    def exit_code(self) -> int:
        """0 without findings, 1 with findings, 2 if no file could be read."""
        if self.unreadable and not self.files:
            return 2
        return 1 if self.findings else 0

    @property
    def traced(self) -> dict[str, str]:
        """The versions of torch and Python on which it was traced what breaks."""
        table = load_table(self.torch, self.python)
        return {"torch": table.torch, "python": table.python}

    @property
    def versions(self) -> str:
        """The versions checked for: "torch 2.13, Python 3.11", and those traced if they differ."""
        text = f"torch {self.torch}, Python {self.python}"
        if (traced := self.traced) == {"torch": self.torch, "python": self.python}:
            return text
        return (
            f"{text} (what breaks was traced on torch {traced['torch']}, Python {traced['python']})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data, schema 1."""
        return {
            "schema": SCHEMA,
            "torch": self.torch,
            "python": self.python,
            "traced": self.traced,
            "strict": self.strict,
            "files": self.files,
            "findings": [asdict(finding) for finding in self.findings],
            "unreadable": [asdict(one) for one in self.unreadable],
        }
