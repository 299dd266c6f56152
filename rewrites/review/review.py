"""A check's result as reviewers read it: with paths in the repository and fingerprints."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from fullgraph.rewrites.check import CheckResult, Finding
from fullgraph.rewrites.review.paths import find_root, relative_path
from fullgraph.rewrites.review.source_lines import SourceLines


@dataclass(frozen=True)
class Remark:
    """A finding with its path in the repository and its fingerprint."""

    finding: Finding
    path: str
    """Relative to the root of the repository, with forward slashes."""
    fingerprint: str
    """Hash of path, code, function and expression, plus a number; moved lines keep it."""


@dataclass(frozen=True)
class Review:
    """All findings of a check, with what an output format needs to show them."""

    result: CheckResult
    """The check's result; its findings are those of `remarks`, in the same order."""
    remarks: tuple[Remark, ...]
    root: Path
    lines: SourceLines

    def keep(self, is_kept: Callable[[Remark], bool]) -> Review:
        """Return the review with only the remarks for which `is_kept` returns True."""
        remarks = tuple(one for one in self.remarks if is_kept(one))
        result = replace(self.result, findings=tuple(one.finding for one in remarks))
        return replace(self, result=result, remarks=remarks)


def review_of(
    result: CheckResult, start: Path | None = None, lines: SourceLines | None = None
) -> Review:
    """Return the review of a check's result: its findings with paths in the repository.

    `start` is a folder in the repository; None for the working directory. `lines` provides the
    source lines; None to read the files.
    """
    root = find_root(start or Path.cwd())
    lines = lines or SourceLines()
    return Review(result, tuple(_remarks(result.findings, root, lines)), root, lines)


def _remarks(findings: Iterable[Finding], root: Path, lines: SourceLines) -> Iterable[Remark]:
    seen: Counter[str] = Counter()
    for finding in findings:
        path = relative_path(finding.file, root)
        expression = " ".join(lines.expression(finding).split())
        key = "\0".join((path, finding.code, finding.function, expression))
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        seen[digest] += 1
        yield Remark(finding, path, f"{digest}:{seen[digest]}")
