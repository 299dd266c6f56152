"""The facts of a `to_dict()` that the golden data keeps: no prose, times, addresses or counts.

Prose (messages, advice, reasons) may be reworded at any time. Paths are relative to the checkout or
to site-packages, so that two checkouts agree.
"""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
Facts = dict[str, Any]

_CAUSE = [
    "category",
    "gb_id",
    "line",
    "column",
    "end_line",
    "end_column",
    "function",
    "expression",
    "module_path",
    "frame",
    "hidden",
    "behind",
    "branch",
    "modes",
    "events",
    "graphs",
    "ops_before",
    "ops_after",
    "state",
]
_GRAPH = ["function", "line", "ops", "ended_by", "phase", "splits"]
_SUGGESTION = ["rule", "line", "category", "cause", "applicability", "accepted"]
_CUT = ["call", "calls", "target", "place", "code"]
_DROPPED = re.compile(r'\+\s*"""|\s(from|import) fullgraph\b')
"""Lines of a diff: added docstrings, which are prose, and imports of fullgraph in the context."""
_INSTALLED = re.compile(r"^(---|\+\+\+) ([ab]/).*site-packages/")


def of_explain(data: Mapping[str, Any]) -> Facts:
    """The facts of an explanation."""
    return {
        "modes": data["modes"],
        "causes": [_at(cause, _CAUSE) for cause in data["causes"]],
        "graphs": [_at(graph, _GRAPH) for graph in data["graphs"]],
        "recompiles": [_at(one, ["function", "line", "count"]) for one in data["recompiles"]],
        "fallbacks": [
            _at(one, ["function", "line", "gb_id", "cause"]) for one in data["fallbacks"]
        ],
        "crashes": [
            {**_some(one, ["stage", "error", "mode"]), "place": _place(one["position"])}
            for one in data["crashes"]
        ],
        "notes": sorted(
            (one["kind"], _place(one["position"]) or "")
            for one in data["notes"]
            if one["kind"] in ("sync", "guard", "state")
        ),
        "failed": data["error"] is not None,
    }


def of_fix(data: Mapping[str, Any]) -> Facts:
    """The facts of fixes. A diff has no line numbers in its hunk headers."""
    return {
        **_some(data, ["before", "after", "after_unsafe"]),
        "suggestions": [
            {
                **_at(one, _SUGGESTION),
                "proof": one["proof"]["state"],
                "sides": [list(side.values())[:3] for side in one["proof"]["branches"]],
                "diff": _diff(one["diff"]),
            }
            for one in data["suggestions"]
        ],
        "unfixed": [_at(one, ["cause", "category", "line"]) for one in data["unfixed"]],
        "diff": _diff(data["diff"]),
        "diff_unsafe": _diff(data["diff_unsafe"]),
    }


def of_bisect(data: Mapping[str, Any]) -> Facts:
    """The facts of a bisection."""
    failure, cut = data["failure"], data["cut"]
    return {
        "kind": failure and failure["kind"],
        **_some(data, ["rungs", "first_failing"]),
        "culprit": data["culprit"] and data["culprit"].removesuffix(" mends it"),
        "cut": cut and _some(cut, _CUT),
        "refused": data["refused"] is not None,
    }


def of_minify(data: Mapping[str, Any], text: str) -> Facts:
    """The facts of a minified program, whose script is `text`."""
    return {
        **of_bisect(data),
        **_some(data, ["ops", "ops_aten", "lines", "standalone"]),
        "script": _script(text),
    }


def relative(path: str) -> str:
    """`path` from the checkout, from site-packages or from the standard library."""
    _, installed, inside = path.rpartition("site-packages/")
    if installed:
        return installed + inside
    for folder in (ROOT, Path(sysconfig.get_path("stdlib"))):
        if Path(path).is_relative_to(folder):
            return str(Path(path).relative_to(folder))
    return Path(path).name if path.startswith("/") else path


def _some(data: Mapping[str, Any], names: Iterable[str]) -> Facts:
    return {name: data[name] for name in names}


def _at(data: Mapping[str, Any], names: Iterable[str]) -> Facts:
    return {"file": relative(data["file"]), **_some(data, names)}


def _place(position: Mapping[str, Any] | None) -> str | None:
    return position and f"{relative(position['file'])}:{position['line']}:{position['column']}"


def _diff(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if not _DROPPED.match(line)]
    lines = [re.sub(r"^@@ .*", "@@", line) for line in lines]
    return [_INSTALLED.sub(r"\1 \2site-packages/", line) for line in lines]


def _script(text: str) -> list[str]:
    """The lines of a script without comments and empty lines."""
    lines = (line.rstrip() for line in text.splitlines())
    return [line for line in lines if line and not line.lstrip().startswith("#")]
