"""Lines that changed since a revision, by `git diff`."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fullgraph.compiler.errors import FullgraphError
from fullgraph.rewrites.check import Finding
from fullgraph.rewrites.check.sources import CannotRead, code_cells
from fullgraph.rewrites.review.review import Remark

_HUNK = re.compile(r"@@ -\d+(?:,(?P<old>\d+))? \+(?P<first>\d+)(?:,(?P<new>\d+))? @@")
_ESCAPE = re.compile(r"\\([0-7]{3}|.)")
_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}


@dataclass(frozen=True)
class ChangedLines:
    """The lines of a working tree that are new or changed since a commit."""

    root: Path
    base: str
    """The commit that the working tree is compared with."""
    lines: Mapping[str, frozenset[int]]
    """1-based numbers of the changed lines, by path relative to `root`."""
    untracked: frozenset[str] = field(default=frozenset())
    """Files that git does not track: all their lines count as changed."""

    def holds(self, remark: Remark) -> bool:
        """Return whether a line of the finding changed; True for a file outside the repository."""
        if remark.path in self.untracked or remark.path.startswith("/"):
            return True
        finding = remark.finding
        if finding.cell is not None:
            return remark.path in self.lines and self._is_cell_changed(remark.path, finding)
        changed = self.lines.get(remark.path, frozenset())
        return any(line in changed for line in range(finding.line, finding.end_line + 1))

    def of(self, path: str) -> frozenset[int]:
        """Return the 1-based numbers of the changed lines of a file."""
        if path not in self.untracked:
            return self.lines.get(path, frozenset())
        text = (self.root / path).read_text(encoding="utf-8", errors="replace")
        return frozenset(range(1, len(text.split("\n")) + 1))

    def _is_cell_changed(self, path: str, finding: Finding) -> bool:
        """Return whether no cell of the notebook at the base commit has the code of this cell."""
        assert finding.cell is not None
        try:
            now = code_cells((self.root / path).read_text(encoding="utf-8"))
            before = code_cells(_git(self.root, "show", f"{self.base}:{path}"))
        except (CannotRead, FullgraphError, OSError, UnicodeError):
            return True
        return now[finding.cell - 1] not in before


def changed_since(revision: str, root: Path) -> ChangedLines:
    """Return the lines that changed since the merge base of a revision and HEAD.

    Without a merge base they are those that changed since the revision. Staged, unstaged and
    untracked changes count. Raises FullgraphError if there is no such revision, no repository or
    no git.
    """
    if not (root / ".git").exists():
        raise FullgraphError(f"{root} is in no git repository, so --since has nothing to compare.")
    try:
        wanted = f"{revision}^{{commit}}"
        tip = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", wanted).strip()
    except FullgraphError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise
        raise FullgraphError(
            f"There is no revision {revision!r} in {root}: name a branch, a tag or a commit."
        ) from None
    try:
        base = _git(root, "merge-base", tip, "HEAD").split()[0]
    except (FullgraphError, IndexError):  # histories without a common commit
        base = tip
    text = _git(
        root,
        *("-c", "core.quotePath=false", "diff", "--unified=0", "--no-color", "--no-ext-diff"),
        *("--no-textconv", "--no-relative", "--ignore-submodules", "--src-prefix=a/"),
        *("--dst-prefix=b/", base, "--"),
    )
    listed = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    untracked = frozenset(one for one in listed.split("\0") if one)
    return ChangedLines(root, base, parse_diff(text), untracked)


def parse_diff(text: str) -> dict[str, frozenset[int]]:
    """Return the numbers of the added lines in a unified diff, by the file's new path.

    `text` is the diff, made without context lines (`git diff -U0`).
    """
    found: dict[str, set[int]] = {}
    path, left = None, 0
    for line in text.split("\n"):
        if left and line[:1] in ("+", "-", " "):
            left -= 1
        elif line.startswith("+++ "):
            path = _path_of(line[4:])
        elif path is not None and (hunk := _HUNK.match(line)):
            new = int(hunk["new"] or "1")
            left = int(hunk["old"] or "1") + new
            first = int(hunk["first"])
            found.setdefault(path, set()).update(range(first, first + new))
    return {path: frozenset(lines) for path, lines in found.items()}


def _path_of(text: str) -> str | None:
    """Return the new path from the line `+++ b/net.py` of a diff; None if the file was deleted.

    `text` is the part of the line after `+++ `.
    """
    text = text.removesuffix("\t")
    if text.startswith('"'):
        text = _unquote(text[1:-1])
    return text.removeprefix("b/") if text.startswith("b/") else None


def _unquote(text: str) -> str:
    """Return a path with the escapes decoded that git writes for quotes and control characters."""

    def character(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code, 8) if code.isdigit() else _ESCAPES.get(code, ord(code)))

    return _ESCAPE.sub(character, text)


def _git(root: Path, *arguments: str) -> str:
    """Run git in `root` and return its stdout. Raises FullgraphError if git fails."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, check=True, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError as error:
        raise FullgraphError("--since needs git, which is not installed.") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise FullgraphError(f"git failed: {said or 'without a message'}.") from error
    return done.stdout.decode(errors="replace")
