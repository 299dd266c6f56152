"""Result of `minify`: the bisection, and the smallest program that fails in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fullgraph.compiler.display import Section, View, mimebundle
from fullgraph.minifier.oracle.sandbox import SECONDS
from fullgraph.minifier.repro import fresh_interpreter as fresh
from fullgraph.minifier.repro import issue as tracker
from fullgraph.minifier.repro.backend_outcomes import DIFFERS, PASSES
from fullgraph.minifier.repro.script_check import ScriptCheck
from fullgraph.minifier.repro.script_text import count_lines
from fullgraph.minifier.rungs.bisection import Bisection


@dataclass(frozen=True, repr=False)
class Minified:
    """The smallest program that fails like the user's, as a script."""

    bisection: Bisection
    check: ScriptCheck | None = None
    """The failure that the script checks for."""
    text: str = ""
    """The script: one Python file that needs torch and the libraries that the failure involves."""
    ops: int = 0
    """Number of calls in the graphs that Dynamo captures from the script's program."""
    ops_aten: int = 0
    """Number of calls in its ATen graphs."""
    before: int = 0
    """Size of the program before the reduction, in `unit`."""
    unit: str = "operators"
    """Unit of `before`: "operators" of a graph, or "lines" of source."""
    calls: int = 0
    """Number of programs that ran, each in a child process; includes the bisection."""
    candidates: int = 0
    """Number of those that were candidates for the reduction."""
    cached: int = 0
    """Number of verdicts that were already known, some from an interrupted run."""
    seconds: float = 0.0
    """Wall time."""
    standalone: bool = False
    """Whether the script fails in the same way in a fresh interpreter in an empty folder."""
    notes: tuple[str, ...] = ()
    """Facts about the result, one sentence each."""
    ran: fresh.ScriptRun | None = None
    """The script's run in a fresh interpreter; None if it was not run."""
    outcomes: Mapping[str, str] = field(default_factory=dict)
    """The script's outcome by backend, as in {'backend="eager"': "passes"}."""
    path: Path | None = field(default=None)
    """File to which the script was written."""

    @property
    def refused(self) -> str | None:
        """One sentence on why there is nothing to minify; None if there is something."""
        return self.bisection.refused

    @property
    def lines(self) -> int:
        """Number of lines of the script, without comments and blank lines."""
        return count_lines(self.text)

    def redacted(self, *, seconds: float = SECONDS) -> Minified:
        """Return a copy whose script has new names, strings and numbers where the failure permits.

        Each change is tried in a fresh interpreter, for at most `seconds`. The file at `path` is
        rewritten.
        """
        from fullgraph.minifier.repro.redact import redact  # libcst takes a moment to load

        assert self.check is not None, "a refused program has no script"
        check = self.check

        def still_fails(text: str) -> bool:
            return fresh.shows_failure(fresh.run(text, seconds=seconds), check)

        text = redact(self.text, still_fails)
        ran = fresh.run(text, seconds=seconds)
        found = replace(
            self,
            text=text,
            ran=ran,
            check=replace(check, got=str(ran)) if ran.error and ran.error in check.got else check,
            outcomes={
                name: told if told in (PASSES, DIFFERS) else f"fails: {ran}"
                for name, told in self.outcomes.items()
            },
        )
        if self.path is not None:
            self.path.write_text(found.text)
        return found

    def elsewhere(
        self, versions: Sequence[str], *, seconds: float = SECONDS
    ) -> tuple[fresh.Elsewhere, ...]:
        """Return the script's outcome with each of `versions`: torch versions, or interpreters.

        `seconds` limits each run.
        """
        assert self.check is not None, "a refused program has no script"
        return fresh.elsewhere(self.text, self.check, versions, seconds=seconds)

    def issue(self) -> str:
        """Return the text of an issue in Markdown: title, summary, script, error, versions."""
        return tracker.issue(self)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data, schema 1: the fields of the bisection and of the script."""
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

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if not self.text:
            return self.bisection.verdict
        operators = "1 operator" if self.ops == 1 else f"{self.ops} operators"
        size = f"{self.before} lines → {self.lines}"
        if self.unit == "operators" and self.ops:
            size = f"{self.before} operators → {operators}, {self.lines} lines"
        alone = "stands alone" if self.standalone else "does NOT stand alone"
        return f"{size}; {self.candidates} candidates, {self.seconds:.0f} s; {alone}"

    def view(self) -> View:
        """Return the HTML view of the bisection and the script."""
        bisection = self.bisection.view()
        if not self.text:
            return replace(bisection, notes=(*bisection.notes, *self.notes))
        script = Section("The repro", code=self.text, is_open=True)
        return replace(
            bisection,
            title=self.verdict,
            sections=(script,),
            notes=(*bisection.notes, *self.notes),
            footer=f"Written to `{self.path}`." if self.path else "",
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.verdict}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return mimebundle(str(self), self.view())

    def __str__(self) -> str:
        parts = [str(self.bisection)]
        if self.text:
            parts.append(self.verdict)
        parts += self.notes
        parts += [self.text] if self.text else []
        return "\n\n".join(parts)
