"""Outputs of a report: the terminal while it grows, JSON, HTML, a difference."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from fullgraph.compiler.errors import FullgraphError

if TYPE_CHECKING:
    from fullgraph.diagnose.explanation import Explanation


def add_outputs(command: argparse.ArgumentParser) -> None:
    """Declare the arguments that select outputs."""
    command.add_argument("--json", action="store_true", help="print JSON instead of the report")
    command.add_argument("--html", metavar="FILE", help="write the report as one HTML page")
    command.add_argument("--against", metavar="FILE", help="compare with a saved --json")


class Stream:
    """Report that grows on the terminal: first the head, then each cause as it is found."""

    def __init__(self, quiet: bool, file: TextIO | None = None) -> None:
        from rich.console import Console

        self.quiet = quiet
        self.console = Console(file=file or sys.stdout, highlight=False)
        self.shown: set[str] = set()
        self.begun = False

    def update(self, explanation: Explanation) -> None:
        """Draw the causes that were not drawn yet."""
        from fullgraph.diagnose.report import render_cause, render_head

        if self.quiet:
            return
        tried = explanation.fullgraph.ok is not None
        if not tried and not explanation.complete and explanation.causes:
            if not self.begun and self.console.is_terminal:  # show a first result at once
                self.console.print(explanation.verdict, highlight=False, markup=False)
                self.begun = True
            return
        if not self.shown and explanation.causes:
            render_head(explanation, self.console)
        for cause in explanation.causes:
            name = f"{cause.gb_type} {cause.position.key}"
            if name not in self.shown:
                self.shown.add(name)
                render_cause(cause, self.console, tried=tried)

    def end(self, explanation: Explanation) -> None:
        """Draw what comes after the causes."""
        from fullgraph.diagnose.report import render, render_rest

        if self.quiet:
            return
        if not self.shown:
            render(explanation, self.console)
        else:
            render_rest(explanation, self.console)
            if any(cause.hidden for cause in explanation.causes):
                self.console.print(explanation.verdict, highlight=False, markup=False)


def write(
    explanation: Explanation,
    args: argparse.Namespace,
    saved: dict[str, object] | None,
    draw: Stream,
) -> None:
    """Write `explanation` to the outputs that the arguments select."""
    draw.end(explanation)
    difference = explanation.diff(saved) if saved is not None else None
    if args.json:
        data = explanation.to_dict()
        if difference is not None:
            data["against"] = difference.to_dict()
        print(json.dumps(data, indent=2))
    elif difference is not None:
        from fullgraph.diagnose.report import render_difference

        render_difference(difference, draw.console)
    if args.html:
        try:
            explanation.to_html(args.html)
        except OSError as error:
            raise FullgraphError(
                f"{args.html} cannot be written: {error.strerror}; give another path."
            ) from None


def saved_report(path: str | None) -> dict[str, object] | None:
    """Return the report saved at `path`; None for None. Raises FullgraphError if it is none."""
    if path is None:
        return None
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise FullgraphError(
            f"{path} cannot be read: {error.strerror}; save a report with --json first."
        ) from None
    except ValueError:
        raise FullgraphError(
            f"{path} holds no JSON: save a report with `fullgraph explain … --json > FILE`."
        ) from None
    from fullgraph.diagnose.report import from_dict

    from_dict(data)  # raises FullgraphError if it is not a saved explanation
    return dict(data)
