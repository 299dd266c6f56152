"""Graph breaks and recompiles of a test, to compare with limits or with a baseline file."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.events import Position
from fullgraph.compiler.sources import short_path
from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.explanation_data import Cause, RecompileInfo
from fullgraph.diagnose.report import count

SCHEMA = 1


@dataclass(frozen=True)
class CompileCounts:
    """The causes of graph breaks and the recompiles of one test."""

    breaks: tuple[str, ...]
    """A key for each cause: "model.py: x.sum().item() (scalar extraction)"."""
    recompiles: tuple[str, ...]
    """A key for each recompile, with the value that changed: "model.py: self.count"."""

    def to_dict(self) -> dict[str, list[str]]:
        """Return the counts as data for JSON."""
        return {"breaks": list(self.breaks), "recompiles": list(self.recompiles)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Iterable[str]]) -> CompileCounts:
        """Return the counts from the result of `to_dict`. Raises KeyError for a missing field."""
        return cls(tuple(data["breaks"]), tuple(data["recompiles"]))


@dataclass(frozen=True)
class CompileRecord:
    """Breaks and recompiles of one test, with text that describes each."""

    counts: CompileCounts
    lines: Mapping[str, str]
    """Description of each break and recompile, by its key in `counts`."""


def read_record(explanation: Explanation, folders: Iterable[Path]) -> CompileRecord:
    """Return the breaks and recompiles of an explanation that are in `folders`; in all if empty."""
    inside = tuple(folders)
    breaks: list[str] = []
    recompiles: list[str] = []
    lines: dict[str, str] = {}
    for cause in explanation.causes:
        if _is_inside(cause.position.file, inside):
            what = f"{_one_line(cause.expression)} ({cause.category})"
            key = f"{short_path(cause.position.file)}: {what}"
            breaks.append(key)
            lines[key] = _describe_cause(cause)
    for one in explanation.recompiles:
        if _is_inside(one.file, inside):
            key = f"{short_path(one.file)}: {one.root or one.function}"
            recompiles += [key] * one.count
            lines[key] = _describe_recompile(one)
    return CompileRecord(CompileCounts(tuple(sorted(breaks)), tuple(sorted(recompiles))), lines)


def describe_excess(
    found: CompileRecord, limits: tuple[int, int], held: CompileCounts | None
) -> str:
    """Return a description of the breaks and recompiles that are too many; "" if none are.

    `limits` are the allowed numbers of (breaks, recompiles). If `held`, the counts of a baseline,
    is not None, its numbers are the limits, and only what it does not have is described.
    """
    summary: list[str] = []
    details: list[str] = []
    nouns = ("graph-break cause", "recompile")
    known = (held.breaks, held.recompiles) if held is not None else (None, None)
    both = (found.counts.breaks, found.counts.recompiles)
    for noun, keys, limit, old in zip(nouns, both, limits, known, strict=True):
        allowed = limit if old is None else len(old)
        if len(keys) > allowed:
            where = "allowed" if old is None else "in the baseline"
            summary.append(f"{count(len(keys), noun)}, {allowed} {where}")
            details += (Counter(keys) - Counter(old or ())).elements() or keys
    lines = [found.lines[key] for key in dict.fromkeys(details)]
    return "\n".join(["; ".join(summary) + ":", *lines]) if summary else ""


def package_folders(name: str) -> tuple[Path, ...]:
    """Return the folders of a package, or the file of a module.

    Raises FullgraphError if it cannot be found.
    """
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise FullgraphError(f'only="{name}": there is no such package; give an importable name.')
    if spec.submodule_search_locations:
        return tuple(Path(one).resolve() for one in spec.submodule_search_locations)
    return (Path(spec.origin or name).resolve(),)


def read_baseline(path: Path) -> dict[str, CompileCounts]:
    """Return the counts of each test in a baseline file; {} if there is no file.

    Raises FullgraphError if the file is not a baseline.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise FullgraphError(f"{path}: schema {data['schema']}, this version reads {SCHEMA}.")
        return {test: CompileCounts.from_dict(one) for test, one in data["tests"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FullgraphError(
            f"{path} is no baseline ({type(error).__name__}: {error}): write one with "
            "--fullgraph-update."
        ) from None


def baseline_text(tests: Mapping[str, CompileCounts], torch: str) -> str:
    """Return the text of a baseline file with the counts of each test and torch's version."""
    rows = {test: tests[test].to_dict() for test in sorted(tests)}
    data: dict[str, Any] = {"schema": SCHEMA, "torch": torch, "tests": rows}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _is_inside(file: str, folders: tuple[Path, ...]) -> bool:
    path = Path(file).resolve()
    return not folders or any(folder in (path, *path.parents) for folder in folders)


def _one_line(code: str) -> str:
    """Return `code` on one line, with single spaces."""
    return " ".join(code.split())


def _place_of(position: Position) -> str:
    """Return a position as "model.py:3:9"."""
    column = "" if position.column is None else f":{position.column + 1}"
    return f"{short_path(position.file)}:{position.line}{column}"


def _describe_cause(cause: Cause) -> str:
    """Return lines on a cause: its position and code, its message, and advice if there is any."""
    first = f"{_place_of(cause.position)}: {_one_line(cause.expression)} ({cause.category})"
    advice = f"\n    {cause.advice[0].text}" if cause.advice else ""
    return f"{first}\n    {cause.message}{advice}"


def _describe_recompile(one: RecompileInfo) -> str:
    """Return lines on a recompile: its position and value, its message, and advice if any."""
    place = _place_of(one.where) if one.where is not None else f"{short_path(one.file)}:{one.line}"
    advice = f"\n    {one.advice[0].text}" if one.advice else ""
    what = f"{one.root or one.function} ({count(one.count, 'recompile')})"
    return f"{place}: {what}\n    {one.message}{advice}"
