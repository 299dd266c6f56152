"""Reviewdog Diagnostic Format: review comments with one-click suggestions."""

from __future__ import annotations

import json
from typing import Any

from fullgraph.rewrites.check import Certainty
from fullgraph.rewrites.review.links import help_uri
from fullgraph.rewrites.review.review import Remark, Review


def render(review: Review) -> str:
    """Return a `DiagnosticResult` with all findings; columns count UTF-8 bytes from 1."""
    data = {
        "source": {"name": "fullgraph", "url": help_uri("")},
        "diagnostics": [_diagnostic(remark, review) for remark in review.remarks],
    }
    return json.dumps(data, indent=1) + "\n"


def _diagnostic(remark: Remark, review: Review) -> dict[str, Any]:
    finding = remark.finding
    location: dict[str, Any] = {"path": remark.path}
    message = finding.message
    if finding.cell is None:
        location["range"] = _range(
            finding.line, finding.column, finding.end_line, finding.end_column
        )
    else:
        message = f"Cell {finding.cell}, line {finding.line}: {message}"
    data: dict[str, Any] = {
        "message": message,
        "location": location,
        "severity": "WARNING" if finding.certainty is Certainty.PROVED else "INFO",
        "code": {"value": finding.code, "url": help_uri(finding.code)},
    }
    edit = review.lines.merged_edit(finding)
    if edit is not None and finding.cell is None:
        span = _range(edit.line, edit.column, edit.end_line, edit.end_column)
        data["suggestions"] = [{"range": span, "text": edit.text}]
    return data


def _range(line: int, column: int, end_line: int, end_column: int) -> dict[str, dict[str, int]]:
    return {
        "start": {"line": line, "column": column + 1},
        "end": {"line": end_line, "column": end_column + 1},
    }
