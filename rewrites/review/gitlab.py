"""GitLab's code quality report."""

from __future__ import annotations

import json
from typing import Any

from fullgraph.rewrites.check import Certainty
from fullgraph.rewrites.review.review import Remark, Review


def render(review: Review) -> str:
    """Return the report: a JSON list of issues, one for each finding."""
    return json.dumps([_issue(remark) for remark in review.remarks], indent=1) + "\n"


def _issue(remark: Remark) -> dict[str, Any]:
    finding = remark.finding
    lines = {"begin": finding.line, "end": finding.end_line}
    message = finding.message
    if finding.cell is not None:
        lines = {"begin": 1, "end": 1}
        message = f"Cell {finding.cell}, line {finding.line}: {message}"
    return {
        "description": message,
        "check_name": finding.code,
        "fingerprint": remark.fingerprint,
        "severity": "major" if finding.certainty is Certainty.PROVED else "minor",
        "location": {"path": remark.path, "lines": lines},
    }
