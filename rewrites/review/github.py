"""GitHub annotations: commands that a step of a workflow prints."""

from __future__ import annotations

from fullgraph.rewrites.check import Certainty
from fullgraph.rewrites.review.positions import code_points
from fullgraph.rewrites.review.review import Remark, Review


def render(review: Review) -> str:
    """Return a workflow command for each finding: `warning` if it is proved, else `notice`."""
    return "".join(f"{_command(remark, review)}\n" for remark in review.remarks)


def _command(remark: Remark, review: Review) -> str:
    finding = remark.finding
    level = "warning" if finding.certainty is Certainty.PROVED else "notice"
    properties: dict[str, object] = {"file": remark.path}
    message = finding.message
    if finding.cell is None:
        properties |= {"line": finding.line, "endLine": finding.end_line}
        if finding.end_line == finding.line:  # columns count within one line alone
            line = review.lines.line(finding, finding.line)
            properties |= {
                "col": code_points(line, finding.column) + 1,
                "endColumn": code_points(line, finding.end_column) + 1,
            }
    else:
        message = f"Cell {finding.cell}, line {finding.line}: {message}"
    properties["title"] = f"{finding.code} {finding.category}"
    given = ",".join(f"{name}={_escape_property(str(one))}" for name, one in properties.items())
    return f"::{level} {given}::{_escape_data(message)}"


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
