"""Situations of real code that break a graph or recompile: a file each, and `cases.toml`.

A file has `build()`, which returns a module or function and its inputs, and where recompiles
matter `build_calls`, the inputs of the calls after the first.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FILES = {path.stem: path for path in HERE.glob("*/*.py")}
"""The files by their names, which are those of the rows."""


@dataclass(frozen=True)
class Situation:
    """A row of `cases.toml`, which says what its fields mean."""

    name: str
    kind: str
    label: str
    source: str
    construct: str
    expects: tuple[str, ...]
    answer: str
    held_out: bool = False
    drawn: int = 0

    @property
    def file(self) -> Path:
        return FILES[self.name]

    def build(self) -> tuple[Callable[..., Any], tuple[Any, ...], list[tuple[Any, ...]]]:
        """Return the module or function, its inputs, and those of further calls."""
        module = import_module(f"{__name__}.{self.file.parent.name}.{self.name}")
        return *module.build(), list(getattr(module, "build_calls", ()))

    def lines_of(self, text: str) -> set[int]:
        """Return the 1-based lines of the file that hold `text`."""
        lines = self.file.read_text().splitlines()
        return {number for number, line in enumerate(lines, 1) if text in line}


SITUATIONS: dict[str, Situation] = {
    name: Situation(name, **{**row, "expects": tuple(row["expects"])})
    for name, row in tomllib.loads((HERE / "cases.toml").read_text()).items()
}
