"""Facts of a run for the static check: which expressions were tensors.

`fullgraph explain --facts FILE` writes them. The facts of a file count while its text is what it
was in the run, wherever it lies.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.events import Position
from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.check.sources import CannotRead, Source, digest_of, read_source

SCHEMA = 1
Span = tuple[int, int, int, int]
"""First line, start column, last line, end column; columns count UTF-8 bytes from 0."""


@dataclass(frozen=True)
class Facts:
    """Expressions that were tensors in a run, each time that the run evaluated them."""

    tensors: Mapping[str, Mapping[Span, str]] = field(default_factory=dict)
    """Kind of dtype ("bool", "int" or "float"; "" for another kind or several), by the digest of
    the file's text and then by span."""
    digest: str = ""
    """Digest of all facts; "" if there are none."""

    def of(self, source: Source) -> Mapping[Span, str]:
        """Return the facts of a file, found by its text: kinds of dtypes by span."""
        return self.tensors.get(_digest_of_text(source), {}) if self.tensors else {}


NO_FACTS = Facts()


def span_of(node: ast.expr) -> Span:
    """Return the span of an expression of a parsed file."""
    last, end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    return node.lineno, node.col_offset, last, end


def write_facts(path: str | os.PathLike[str], values: Mapping[Position, ValueSummary]) -> int:
    """Write the expressions that were tensors in a run to the file `path`; return their number.

    `values` is what the run recorded, by expression. Raises FullgraphError if the file cannot be
    written.
    """
    files: dict[str, list[tuple[int, int, int, int, str]]] = {}
    for place, seen in values.items():
        if seen.is_tensor and place.end_line is not None:
            span = (place.line, place.column or 0, place.end_line, place.end_column or 0)
            files.setdefault(place.file, []).append((*span, _kind_of(seen)))
    found = []
    for file, tensors in sorted(files.items()):
        try:
            digest = _digest_of_text(read_source(Path(file)))
        except CannotRead:
            continue
        found.append({"file": file, "digest": digest, "tensors": sorted(tensors)})
    try:
        Path(path).write_text(json.dumps({"schema": SCHEMA, "files": found}) + "\n", "utf-8")
    except OSError as error:
        raise FullgraphError(f"{path} cannot be written: {error.strerror}.") from None
    return sum(len(one["tensors"]) for one in found)


def read_facts(path: str | os.PathLike[str]) -> Facts:
    """Return the facts that `write_facts` wrote to a file: the expressions that were tensors.

    Raises FullgraphError if the file cannot be read, or is not such a file.
    """
    try:
        text = Path(path).read_text("utf-8")
        data = json.loads(text)
        if data["schema"] != SCHEMA:
            raise ValueError
        tensors = {
            one["digest"]: {(a, b, c, d): str(kind) for a, b, c, d, kind in one["tensors"]}
            for one in data["files"]
        }
    except OSError as error:
        raise FullgraphError(f"{path} cannot be read: {error.strerror}.") from None
    except (KeyError, TypeError, ValueError):
        raise FullgraphError(
            f"{path} holds no facts of a run: `fullgraph explain model.py:Net --facts {path}` "
            "writes them."
        ) from None
    return Facts(tensors, digest_of(text.encode()))


def _digest_of_text(source: Source) -> str:
    return digest_of(source.text.encode(errors="replace"))


def _kind_of(seen: ValueSummary) -> str:
    """Return the kind of a value's dtype: "bool", "int" or "float" (also for float16).

    `seen` is what a run recorded. "" for another dtype, or if the dtypes are of several kinds.
    """
    kinds = {
        "bool" if one.is_bool else "float" if one.is_float else "int" if "int" in one.dtype else ""
        for one in seen.tensors
    }
    return kinds.pop() if len(kinds) == 1 else ""
