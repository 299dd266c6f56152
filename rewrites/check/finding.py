"""Findings of a static check, as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from fullgraph.rewrites.rule import Applicability

SCHEMA = 1


class Certainty(StrEnum):
    """What is known of the values that a finding is about."""

    PROVED = "proved"
    """The source shows them, or facts of an explained run."""
    LIKELY = "likely"
    """They follow from names and usage: reported under `strict`."""


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
    """What must hold for the edit that the source does not show, one clause each."""
    edits: tuple[TextEdit, ...] = ()
    """In the finding's file, in order, without overlaps; empty for a setting."""


@dataclass(frozen=True)
class Finding:
    """An expression that breaks a graph, skips a frame or recompiles."""

    code: str
    """"FGB101" for a graph break, "FGR101" for a recompile: stable for ever."""
    file: str
    line: int
    """1-based; in a notebook, in its cell."""
    column: int
    """0-based offset in UTF-8 bytes, as in `ast`."""
    end_line: int
    end_column: int
    message: str
    certainty: Certainty
    category: str
    """Category of a cause, as `explain` has it: "data-dependent branch"."""
    function: str
    """Qualified name of the function around the expression: "Net.forward"."""
    modes: tuple[str, ...] = ("default", "fullgraph")
    """Modes in which it is a cause; a recompile has both."""
    cell: int | None = None
    """Number of the code cell of a notebook, from 1."""
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
        """0: no finding. 1: findings. 2: nothing could be read."""
        if self.unreadable and not self.files:
            return 2
        return 1 if self.findings else 0

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data, schema 1."""
        return {
            "schema": SCHEMA,
            "torch": self.torch,
            "python": self.python,
            "strict": self.strict,
            "files": self.files,
            "findings": [asdict(finding) for finding in self.findings],
            "unreadable": [asdict(one) for one in self.unreadable],
        }
