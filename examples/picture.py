"""The picture in the README: a real report, drawn by `python -m examples.picture`."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from examples import suspects
from fullgraph import explain
from fullgraph.diagnose.report import render

PICTURE = Path(__file__).parent.parent / "docs" / "explain.svg"


def main() -> int:
    """Explain the network with the loop and save what a terminal shows of it."""
    explanation = explain(*suspects.build_loop())
    console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True)
    render(explanation, console)
    console.save_svg(str(PICTURE), title="fullgraph explain examples/suspects.py:build_loop")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
