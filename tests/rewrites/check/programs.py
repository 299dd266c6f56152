"""Checking a source text in tests."""

from __future__ import annotations

import tempfile
import textwrap
from pathlib import Path

from fullgraph.rewrites.check import CheckResult, Finding, check
from tests.text import block

HEAD = block("""
    import torch
    from torch import Tensor, nn
    import torch.nn.functional as F
""")


def check_text(body: str, *, head: str = HEAD, strict: bool = False, **files: str) -> CheckResult:
    """Return the result for a file with `body`; `files` are modules beside it."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            Path(folder, f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
        path = Path(folder, "model.py")
        path.write_text(head + textwrap.dedent(body), encoding="utf-8")
        return check([folder], strict=strict, torch="2.13", python="3.11")


def found(body: str, **options: object) -> list[tuple[str, str]]:
    """Return the category and the text of each finding."""
    result = check_text(body, **options)  # type: ignore[arg-type]
    lines = (HEAD + textwrap.dedent(body)).split("\n")
    return [(one.category, _text(one, lines)) for one in result.findings]


def _text(finding: Finding, lines: list[str]) -> str:
    text = lines[finding.line - 1]
    end = finding.end_column if finding.end_line == finding.line else len(text)
    return text[finding.column : end]
