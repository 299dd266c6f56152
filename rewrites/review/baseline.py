"""Baseline: the known findings of a project, which are not reported again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from fullgraph.compiler.errors import FullgraphError
from fullgraph.rewrites.review.review import Remark

SCHEMA = 1


def read_baseline(path: str) -> frozenset[str]:
    """Return the fingerprints of the known findings that a baseline file lists.

    Raises FullgraphError if the file cannot be read or is not a baseline.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise FullgraphError(
                f"{path} has schema {data['schema']}, not {SCHEMA}: write it anew with "
                "--update-baseline."
            )
        return frozenset(str(one["fingerprint"]) for one in data["findings"])
    except OSError as error:
        raise FullgraphError(
            f"{path} cannot be read: {error.strerror}; write it with --update-baseline."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise FullgraphError(
            f"{path} is no baseline: write it with --baseline {path} --update-baseline."
        ) from None


def write_baseline(path: str, remarks: Iterable[Remark]) -> None:
    """Write a baseline with a line for each remark, in their order.

    Raises FullgraphError if the file cannot be written.
    """
    rows = [
        json.dumps(
            {
                "fingerprint": remark.fingerprint,
                "code": remark.finding.code,
                "file": remark.path,
                "function": remark.finding.function,
                "message": remark.finding.message,
            },
            ensure_ascii=False,
        )
        for remark in remarks
    ]
    body = ",\n".join(f"  {row}" for row in rows)
    text = f'{{\n "schema": {SCHEMA},\n "findings": [\n{body}\n ]\n}}\n'
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FullgraphError(
            f"{path} cannot be written: {error.strerror}; give another path."
        ) from None
