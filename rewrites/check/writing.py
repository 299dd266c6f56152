"""Apply the fixes of a check: write the files, or show a diff."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from fullgraph.rewrites.check.finding import CheckResult, Finding
from fullgraph.rewrites.check.fixes import apply_edits
from fullgraph.rewrites.check.sources import CannotRead, read_text
from fullgraph.rewrites.rule import Applicability
from fullgraph.rewrites.source import write_files

TURNS = 10
"""Number of times that the files are checked and fixed, at most."""


@dataclass(frozen=True)
class FixedFiles:
    """Texts of files before and after their fixes, and how many fixes were applied."""

    before: dict[str, str]
    after: dict[str, str]
    applied: int

    @property
    def diff(self) -> str:
        """All changes, as one unified diff."""
        parts = []
        for file, new in self.after.items():
            old = self.before[file]
            name = _relative(file)
            lines = difflib.unified_diff(
                old.splitlines(keepends=True),
                new.splitlines(keepends=True),
                f"a/{name}",
                f"b/{name}",
            )
            parts += [
                one if one.endswith("\n") else f"{one}\n\\ No newline at end of file\n"
                for one in lines
            ]
        return "".join(parts)

    def write(self) -> tuple[Path, ...]:
        """Write all files, or none if one fails; return their paths."""
        folders = {Path(file).resolve().parent for file in self.after}
        return write_files(self.before, self.after, roots=folders, force=True)


def _relative(file: str) -> str:
    """Return a file's path for a diff that `git apply` can read in the working directory.

    It is relative to the working directory. For a file outside it, it is the absolute path without
    the first slash.
    """
    path = Path(file).absolute()
    inside = path.is_relative_to(Path.cwd())
    return (path.relative_to(Path.cwd()) if inside else path).as_posix().lstrip("/")


def fixed_files(result: CheckResult, *, unsafe: bool = False) -> FixedFiles:
    """Return the texts of the files that have fixes, with the fixes applied; no file is written.

    Unsafe fixes are applied only if `unsafe`.
    """
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    applied = 0
    for file, findings in _by_file(result.findings).items():
        fixes = [one.fix for one in findings if one.fix and is_applied(one, unsafe)]
        if not fixes:
            continue
        try:
            text = read_text(Path(file))
        except CannotRead:
            continue
        new, count = apply_edits(text, fixes)
        if new != text:
            before[file], after[file] = text, new
            applied += count
    return FixedFiles(before, after, applied)


def is_applied(finding: Finding, unsafe: bool) -> bool:
    """Return whether `--fix` applies the finding's fix; `unsafe` is `--unsafe-fixes`."""
    fix = finding.fix
    if fix is None or not fix.edits:
        return False
    allowed = {Applicability.SAFE, Applicability.UNSAFE} if unsafe else {Applicability.SAFE}
    return fix.applicability in allowed


def fix_until_stable(check_again: Callable[[], CheckResult], *, unsafe: bool = False) -> int:
    """Write fixed files and check again, until no fix is left, but at most TURNS times.

    `check_again` runs the check. Unsafe fixes are applied only if `unsafe`. Returns the number of
    applied fixes.
    """
    total = 0
    for _ in range(TURNS):
        files = fixed_files(check_again(), unsafe=unsafe)
        if not files.after:
            break
        files.write()
        total += files.applied
    return total


def _by_file(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for one in findings:
        found.setdefault(one.file, []).append(one)
    return found
