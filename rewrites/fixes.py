"""The one plain value that `fix` returns."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fullgraph.compiler.sources import Owner, override_sources, owner_of
from fullgraph.diagnose.explanation import Explanation
from fullgraph.rewrites.proof.proof import Proof
from fullgraph.rewrites.rule import Applicability


@dataclass(frozen=True)
class Suggestion:
    """One rule's edit at one place, and how it fared."""

    rule: str
    """The rule's code, "FG301"."""
    name: str
    file: str
    line: int
    """The line in the file as it is on disk, 1-based."""
    category: str
    """The category of the cause it is for."""
    cause: str
    """The cause's expression."""
    why: str
    applicability: Applicability
    """What the proof left of what the rule said: an edit that was not proved is not safe."""
    assumes: tuple[str, ...]
    proof: Proof
    diff: str
    """The edit alone, as a unified diff; "" for a setting."""
    accepted: bool
    """Whether it is part of the result (for unsafe ones: of the unsafe result)."""
    numbers: bool = False
    """Whether numbers that the code keeps or returns become tensors without dimensions."""


@dataclass(frozen=True)
class Unfixed:
    """A cause that stays, and why."""

    cause: str
    category: str
    file: str
    line: int
    reason: str
    """A clause that fits after "because"."""


@dataclass(frozen=True)
class Fixes:
    """What `fix` found: suggestions with their proofs, and the program before and after."""

    torch: str
    target: str
    before: Explanation
    after: Explanation
    """With the safe, proved edits applied."""
    after_unsafe: Explanation
    """With the unsafe ones that fared well applied, too."""
    suggestions: tuple[Suggestion, ...] = ()
    unfixed: tuple[Unfixed, ...] = ()
    """The causes that stay in `after_unsafe`."""
    originals: Mapping[str, str] = field(default_factory=dict)
    """The texts of the edited files as they are, by path."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """The same with the safe edits."""
    texts_unsafe: Mapping[str, str] = field(default_factory=dict)
    """The same with the unsafe ones, too."""
    subject: Any = field(default=None, repr=False, compare=False)
    """The module or function that was given."""

    @property
    def verdict(self) -> str:
        """The result in one line."""
        from fullgraph.rewrites.report import verdict

        return verdict(self)

    def diff(self, *, unsafe: bool = False) -> str:
        """All accepted edits as one unified diff; with `unsafe` the unsafe ones too."""
        texts = self._texts(unsafe)
        return "".join(unified(file, self.originals[file], texts[file]) for file in sorted(texts))

    def apply(
        self,
        *,
        unsafe: bool = False,
        roots: Iterable[str | os.PathLike[str]] | None = None,
        force: bool = False,
    ) -> tuple[Path, ...]:
        """Write the edits to the files; returns the files written, all of them or none.

        Only files under `roots` (default: the working directory) are written, and never those of
        installed packages: for these there is `diff` as a patch, and `active`. Raises
        FullgraphError if a file changed since, or has uncommitted changes and not `force`.
        """
        from fullgraph.rewrites.source.files import write

        texts = {f: t for f, t in self._texts(unsafe).items() if owner_of(f) is Owner.USER}
        return write(self.originals, texts, roots=roots, force=force)

    @contextmanager
    def active(self, *, unsafe: bool = False) -> Iterator[None]:
        """Run the edited code inside the block, whosever files it is in, without writing any."""
        with override_sources(self._texts(unsafe)):
            yield

    @property
    def model(self) -> Any:
        """A copy of the module (its parameters shared) or function that runs the safe edits."""
        return self.patched()

    def patched(self, *, unsafe: bool = False) -> Any:
        """`model`, with the unsafe edits too if asked."""
        from fullgraph.rewrites.source.patched import patched

        return patched(self.subject, self._texts(unsafe))

    def to_dict(self) -> dict[str, Any]:
        """This result as JSON-ready data, schema 1."""
        from fullgraph.rewrites.report import to_dict

        return to_dict(self)

    def __repr__(self) -> str:
        from fullgraph.rewrites.report import plain

        return plain(self)

    def _texts(self, unsafe: bool) -> Mapping[str, str]:
        texts = self.texts_unsafe if unsafe else self.texts
        return {file: text for file, text in texts.items() if text != self.originals[file]}


def unified(file: str, before: str, after: str) -> str:
    """A unified diff of one file that `patch -p1` and `git apply` take."""
    name = os.path.relpath(file) if Path(file).is_relative_to(Path.cwd()) else file.lstrip("/")
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
