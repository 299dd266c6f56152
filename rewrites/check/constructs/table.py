"""The table of constructs for a version of torch and Python."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_NAME = re.compile(r"torch-(\d+\.\d+)-python-(\d+\.\d+)\.json")


@dataclass(frozen=True)
class Row:
    """Row of a table of constructs: what torch.compile does with one construct."""

    modes: tuple[str, ...]
    """"default" if it breaks or recompiles with `fullgraph=False`, "fullgraph" if with
    `fullgraph=True`."""
    category: str = ""
    """Category of the cause, the same as in `explain`."""
    frame: str = ""
    """What happens to the frame: "resumed" after the break, "prefix" (eager from the break on),
    "skipped" (all in eager); "" if it does not break."""
    expression: str = ""
    """The expression at the cause, in the program from which the table was made."""
    compiles: int = 0
    """Number of graphs that six calls compile, for a construct that recompiles."""


@dataclass(frozen=True)
class Table:
    """What torch.compile does with each construct, for one version of torch and of Python.

    A construct is a kind of code with a key, such as "branch.if", "method:item" or
    "call:time.time".
    """

    torch: str
    python: str
    rows: Mapping[str, Row]

    def find(self, construct: str) -> Row | None:
        """Return the row of a construct that breaks or recompiles; None for any other."""
        row = self.rows.get(construct)
        return row if row is not None and row.modes else None


def known_versions() -> list[tuple[str, str]]:
    """Return the pairs of versions, of torch and Python, that have a table."""
    names = (_NAME.fullmatch(path.name) for path in Path(__file__).parent.iterdir())
    return sorted(((one[1], one[2]) for one in names if one), key=lambda pair: _key(*pair))


@cache
def load_table(torch: str, python: str) -> Table:
    """Return the table for a version of torch and of Python.

    If there is none for a version, the newest older version is taken; if none is older, the oldest.
    """
    versions = known_versions()
    torches = sorted({one for one, _ in versions}, key=_key)
    nearest = _nearest(torch, torches)
    pythons = [other for one, other in versions if one == nearest]
    chosen = _nearest(python, pythons)
    rows = read_rows(Path(__file__).with_name(f"torch-{nearest}-python-{chosen}.json"))
    return Table(
        nearest,
        chosen,
        {key: Row(**{**row, "modes": tuple(row["modes"])}) for key, row in rows.items() if row},
    )


def read_rows(path: Path) -> dict[str, dict[str, Any] | None]:
    """Return the rows of a table's file; None for a construct of which nothing is known.

    A file that has "differs_from" holds only the rows that differ from those of that file.
    """
    data = json.loads(path.read_text(encoding="utf-8"))
    rows: dict[str, dict[str, Any] | None] = data["constructs"]
    base = data.get("differs_from")
    return read_rows(path.with_name(f"{base}.json")) | rows if base else rows


def _nearest(version: str, known: list[str]) -> str:
    """Return the newest of `known` that is at most `version`; the oldest if all are newer."""
    older = [one for one in known if _key(one) <= _key(version)]
    return max(older, key=_key) if older else min(known, key=_key)


def _key(*versions: str) -> tuple[int, ...]:
    return tuple(int(part) for version in versions for part in version.split("."))
