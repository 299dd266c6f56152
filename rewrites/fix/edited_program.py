"""A program with some edits applied in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fullgraph.diagnose.explanation import Explanation

Texts = Mapping[str, str]
"""Edited source texts by file path."""


@dataclass(frozen=True, eq=False)
class EditedProgram:
    """The program with some edits applied in memory, and its explanation."""

    texts: Texts
    explanation: Explanation
    parent: EditedProgram | None = None
    """The program before the last edit; None without edits."""
    trial: int = -1
    """Index of the last edit in `SearchState.trials`."""

    @property
    def original(self) -> EditedProgram:
        """The program without edits."""
        return self if self.parent is None else self.parent.original
