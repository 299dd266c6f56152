"""The `Explanation` that `explain` returns: plain data, with methods that render it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fullgraph.diagnose.explanation_data import ExplanationData

if TYPE_CHECKING:
    from fullgraph.diagnose.report import Difference


@dataclass(frozen=True, repr=False)
class Explanation(ExplanationData):
    """Everything that `explain` found about a program.

    Its fields are those of `ExplanationData`. A renderer is loaded when it is first used.
    """

    def to_dict(self) -> dict[str, Any]:
        """Return this explanation as JSON-ready data, schema 1."""
        from fullgraph.diagnose.report import to_dict

        return to_dict(self)

    def text(self, verbose: bool = False, cause: str | None = None) -> str:
        """Return the report in 80 columns: one screen, with details of all causes if `verbose`.

        With `cause` ("C3"), the details of that cause alone.
        """
        from fullgraph.diagnose.report import plain

        return plain(self, verbose, cause)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return this explanation as one self-contained HTML page; write it to `path` if given."""
        from fullgraph.diagnose.report import page

        text = page(self)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def diff(self, other: ExplanationData | Mapping[str, object]) -> Difference:
        """Return what changed from `other` (an explanation, or one saved as JSON) to this one."""
        from fullgraph.diagnose.report import diff

        return diff(other, self)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.verdict}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return what a notebook displays."""
        from fullgraph.diagnose.report import mimebundle

        return mimebundle(self)
