"""What `minify` found: the bisection, and the smallest program that shows the failure."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fullgraph.minifier.bisect import Bisection


@dataclass(frozen=True)
class Progress:
    """How far it is, told on the way."""

    phase: str
    """ "bisect", "graph", "inputs", "settings", "source", "script"."""
    before: int
    now: int
    """Size when the work began, and now: operators, or lines of source."""
    calls: int
    cached: int
    text: str = ""
    """The best script so far; "" where nothing new is to be told."""


@dataclass(frozen=True)
class Minified:
    """The smallest program that fails in the same way."""

    bisection: Bisection
    text: str = ""
    """The repro: one Python file that imports torch and what the failure needs."""
    ops: int = 0
    """Call nodes in the graphs that Dynamo captures of it."""
    ops_aten: int = 0
    """Call nodes in the ATen graphs of it."""
    before: int = 0
    """Call nodes, or lines of source, that it began with."""
    calls: int = 0
    cached: int = 0
    seconds: float = 0.0
    standalone: bool = False
    """Whether a fresh interpreter in an empty folder fails in the same way."""
    notes: tuple[str, ...] = ()
    """What is to be known of the result, one sentence each."""
    environment: str = ""
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

    def issue(self) -> str:
        """The text for an issue tracker: title, summary, script, error, versions, rungs."""
        from fullgraph.minifier.tracker import issue

        return issue(self)

    def to_dict(self) -> dict[str, Any]:
        """Schema 1: all of the bisection's fields, and the script's."""
        return {
            **self.bisection.to_dict(),
            "ops": self.ops,
            "ops_aten": self.ops_aten,
            "lines": self.lines,
            "script": str(self.path) if self.path else None,
            "calls": self.calls,
            "cached": self.cached,
            "seconds": round(self.seconds, 2),
            "standalone": self.standalone,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        parts = [str(self.bisection)]
        if self.text:
            size = f"{self.before} → {self.ops} operators, {self.lines} lines"
            alone = "stands alone" if self.standalone else "does NOT stand alone"
            parts.append(f"{size}, {self.calls} candidates, {self.seconds:.0f} s; {alone}")
            parts += self.notes
            parts.append(self.text)
        return "\n\n".join(parts)
