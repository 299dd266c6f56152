"""What `minify` found: the bisection, and the smallest program that shows the failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fullgraph.minifier.oracle.sandbox import SECONDS
from fullgraph.minifier.repro import fresh_interpreter as fresh
from fullgraph.minifier.repro import issue as tracker
from fullgraph.minifier.repro.script import Check
from fullgraph.minifier.rungs.bisection import Bisection


@dataclass(frozen=True)
class Minified:
    """The smallest program that fails in the same way."""

    bisection: Bisection
    check: Check | None = None
    """What the script looks at."""
    text: str = ""
    """The repro: one Python file that imports torch and what the failure needs."""
    ops: int = 0
    """Call nodes in the graphs that Dynamo captures of it."""
    ops_aten: int = 0
    """Call nodes in the ATen graphs of it."""
    before: int = 0
    """What it began with, in `unit`s."""
    unit: str = "operators"
    """ "operators" of a graph, or "lines" of source."""
    calls: int = 0
    """Programs that were tried, each in a process of its own; bisection included."""
    candidates: int = 0
    """Those of them that were smaller programs, asked about whether they fail in the same way."""
    cached: int = 0
    """Questions whose answer was known."""
    seconds: float = 0.0
    standalone: bool = False
    """Whether a fresh interpreter in an empty folder fails in the same way."""
    notes: tuple[str, ...] = ()
    """What is to be known of the result, one sentence each."""
    path: Path | None = field(default=None)
    """Where the script was written."""

    @property
    def refused(self) -> str | None:
        """Why there is nothing to minify; a sentence."""
        return self.bisection.refused

    @property
    def lines(self) -> int:
        """Lines of the script, without comments and empty ones."""
        lines = (line.strip() for line in self.text.splitlines())
        return sum(1 for line in lines if line and not line.startswith("#"))

    def redacted(self, *, seconds: float = SECONDS) -> Minified:
        """The same with other names, strings and numbers where they are not needed; each change
        is tried in a fresh interpreter."""
        from fullgraph.minifier.repro.redact import redact  # libcst takes a moment to load

        assert self.check is not None, "a refused program has no script"
        check = self.check

        def still_fails(text: str) -> bool:
            return fresh.shows(fresh.run(text, seconds=seconds), check)

        found = replace(self, text=redact(self.text, still_fails))
        if self.path is not None:
            self.path.write_text(found.text)
        return found

    def elsewhere(
        self, versions: Sequence[str], *, seconds: float = SECONDS
    ) -> tuple[fresh.Elsewhere, ...]:
        """How the script ends with other versions of torch, or with other interpreters."""
        assert self.check is not None, "a refused program has no script"
        return fresh.elsewhere(self.text, self.check, versions, seconds=seconds)

    def issue(self) -> str:
        """The text for an issue tracker: title, summary, script, error, versions, rungs."""
        return tracker.issue(self)

    def to_dict(self) -> dict[str, Any]:
        """Schema 1: all of the bisection's fields, and the script's."""
        return {
            **self.bisection.to_dict(),
            "ops": self.ops,
            "ops_aten": self.ops_aten,
            "lines": self.lines,
            "script": str(self.path) if self.path else None,
            "calls": self.calls,
            "candidates": self.candidates,
            "cached": self.cached,
            "seconds": round(self.seconds, 2),
            "standalone": self.standalone,
            "notes": [*self.bisection.notes, *self.notes],
        }

    def __str__(self) -> str:
        parts = [str(self.bisection)]
        if self.text:
            operators = "1 operator" if self.ops == 1 else f"{self.ops} operators"
            size = f"{self.before} {self.unit} → {operators}, {self.lines} lines"
            alone = "stands alone" if self.standalone else "does NOT stand alone"
            parts.append(f"{size}; {self.candidates} candidates, {self.seconds:.0f} s; {alone}")
        parts += self.notes
        parts += [self.text] if self.text else []
        return "\n\n".join(parts)
