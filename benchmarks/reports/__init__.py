"""Bugs that users reported to PyTorch, each inside a model, and controls that only look like bugs.

A file has `build()`, which returns a module and its inputs. `cases.toml` has a row for each file.
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
class Report:
    """A row of `cases.toml`, which says what its fields mean."""

    name: str
    title: str
    diagnosis: str
    source: str = ""
    rung: str = ""
    kind: str = ""
    error: str = ""
    lines: int | None = None
    operators: int | None = None
    refusal: str = ""
    flags: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        return FILES[self.name]

    @property
    def is_control(self) -> bool:
        return bool(self.refusal)

    def build(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return the module and its inputs."""
        found: tuple[Callable[..., Any], tuple[Any, ...]]
        found = import_module(f"{__name__}.{self.file.parent.name}.{self.name}").build()
        return found


REPORTS: dict[str, Report] = {
    name: Report(name, **{**row, "flags": tuple(row.get("flags", ()))})
    for name, row in tomllib.loads((HERE / "cases.toml").read_text()).items()
}
