"""SARIF 2.1.0: what code scanning and most viewers of static analysis read."""

from __future__ import annotations

import json
from importlib import metadata
from typing import Any

from fullgraph.rewrites.check import Certainty
from fullgraph.rewrites.check.codes import CODES
from fullgraph.rewrites.review.links import help_uri
from fullgraph.rewrites.review.paths import relative_path, uri_of
from fullgraph.rewrites.review.positions import utf16_units
from fullgraph.rewrites.review.review import Remark, Review

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
FINGERPRINT = "fullgraph/v1"
"""Name of the fingerprint in SARIF; the version is that of the method that computes it."""


def render(review: Review) -> str:
    """Return a SARIF log of one run, with all codes as its rules and the findings as results."""
    result = review.result
    run = {
        "tool": {
            "driver": {
                "name": "fullgraph",
                "version": _version(),
                "informationUri": help_uri(""),
                "rules": [_rule(category, code) for category, code in CODES.items()],
            }
        },
        "columnKind": "utf16CodeUnits",
        "originalUriBaseIds": {"SRCROOT": {"uri": f"{review.root.as_uri()}/"}},
        "invocations": [_invocation(review)],
        "results": [_result(remark, review) for remark in review.remarks],
        "properties": {"torch": result.torch, "python": result.python, "traced": result.traced},
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _version() -> str:
    """Return the installed version of fullgraph; "unknown" if it is not installed."""
    try:
        return metadata.version("fullgraph")
    except metadata.PackageNotFoundError:
        return "unknown"


def _rule(category: str, code: str) -> dict[str, Any]:
    kind = "recompiles again and again" if code.startswith("FGR") else "breaks the graph"
    name = category.removeprefix("recompile: ")
    return {
        "id": code,
        "name": "".join(word.capitalize() for word in name.replace("/", " ").split()),
        "shortDescription": {"text": f"{name[0].upper()}{name[1:]}: torch.compile {kind}."},
        "helpUri": help_uri(code),
        "defaultConfiguration": {"level": "warning"},
        "properties": {"tags": ["torch.compile", category]},
    }


def _invocation(review: Review) -> dict[str, Any]:
    notes = [
        {
            "level": "warning",
            "message": {"text": f"It was not checked: {one.reason}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": _artifact(relative_path(one.path, review.root))
                    }
                }
            ],
        }
        for one in review.result.unreadable
    ]
    return {"executionSuccessful": True, "toolExecutionNotifications": notes}


def _result(remark: Remark, review: Review) -> dict[str, Any]:
    finding = remark.finding
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": _artifact(remark.path)},
        "logicalLocations": [{"fullyQualifiedName": finding.function or "<module>"}],
    }
    if finding.cell is None:
        location["physicalLocation"]["region"] = _region(
            remark, review, finding.line, finding.column, finding.end_line, finding.end_column
        )
    else:  # a notebook is JSON: its lines are not those of its cells
        location["physicalLocation"]["region"] = {"startLine": 1}
        location["message"] = {"text": f"Cell {finding.cell}, line {finding.line}"}
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": list(CODES.values()).index(finding.code),
        "level": "warning" if finding.certainty is Certainty.PROVED else "note",
        "message": {"text": finding.message},
        "locations": [location],
        "partialFingerprints": {FINGERPRINT: remark.fingerprint},
        "properties": {"certainty": str(finding.certainty), "modes": list(finding.modes)},
    }
    if finding.fix and finding.fix.edits and finding.cell is None:
        result["fixes"] = [_fix(remark, review)]
    return result


def _fix(remark: Remark, review: Review) -> dict[str, Any]:
    fix = remark.finding.fix
    assert fix is not None
    replacements = [
        {
            "deletedRegion": _region(
                remark, review, edit.line, edit.column, edit.end_line, edit.end_column
            ),
            "insertedContent": {"text": edit.text},
        }
        for edit in fix.edits
    ]
    assumed = f" Assumes that {'; '.join(fix.assumes)}." if fix.assumes else ""
    return {
        "description": {"text": f"{fix.rule} ({fix.applicability}): {fix.message}{assumed}"},
        "artifactChanges": [
            {"artifactLocation": _artifact(remark.path), "replacements": replacements}
        ],
    }


def _artifact(path: str) -> dict[str, str]:
    uri = uri_of(path)
    return {"uri": uri} if uri.startswith("file:") else {"uri": uri, "uriBaseId": "SRCROOT"}


def _region(
    remark: Remark, review: Review, line: int, column: int, end_line: int, end_column: int
) -> dict[str, int]:
    """Return a span as a region of SARIF, whose end column is not part of it.

    `column` and `end_column` count UTF-8 bytes from 0; SARIF counts UTF-16 code units from 1.
    """
    finding, lines = remark.finding, review.lines
    return {
        "startLine": line,
        "startColumn": utf16_units(lines.line(finding, line), column) + 1,
        "endLine": end_line,
        "endColumn": utf16_units(lines.line(finding, end_line), end_column) + 1,
    }
