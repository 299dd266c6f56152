"""Outputs of `explain`: the progress line, then a report, JSON, HTML or a difference."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from fullgraph.commands.arguments import add_color
from fullgraph.compiler.errors import FullgraphError

if TYPE_CHECKING:
    from rich.live import Live

    from fullgraph.diagnose.explanation import Explanation


def add_outputs(command: argparse.ArgumentParser) -> None:
    """Declare the arguments that select outputs."""
    shown = command.add_mutually_exclusive_group()
    shown.add_argument("-v", "--verbose", action="store_true", help="details of every cause")
    shown.add_argument("-q", "--quiet", action="store_true", help="print the verdict alone")
    shown.add_argument("--cause", metavar="C3", help="details of one cause alone")
    shown.add_argument("--json", action="store_true", help="print JSON instead of the report")
    command.add_argument("--html", metavar="FILE", help="write the report as one HTML page")
    command.add_argument("--against", metavar="FILE", help="compare with a saved --json")
    add_color(command)


class LiveReport:
    """Progress on a terminal that the report replaces at the end."""

    def __init__(self, quiet: bool, file: TextIO | None = None, color: str = "auto") -> None:
        from rich.console import Console

        self.quiet = quiet
        self.console = Console(
            file=file or sys.stdout,
            highlight=False,
            force_terminal=True if color == "always" else None,
            no_color=True if color == "never" else None,
            color_system=None if color == "never" else "auto",
        )
        self._live: Live | None = None

    def begin(self, doing: str) -> None:
        """Show the current step, on a terminal only."""
        self._show("", doing)

    def update(self, explanation: Explanation) -> None:
        """Show the verdict so far, and the current step."""
        if explanation.complete:
            return
        from fullgraph.diagnose.report import next_step

        self._show(explanation.verdict, next_step(explanation))

    def _show(self, verdict: str, doing: str) -> None:
        """Show the verdict and the current step on a terminal."""
        if not sys.stderr.isatty():
            return
        from rich.console import Console, Group
        from rich.live import Live
        from rich.text import Text

        if self._live is None:
            # Without a thread that refreshes it: the work forks.
            self._live = Live(
                console=Console(stderr=True, highlight=False),
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        line = Text(doing, "dim", no_wrap=True, overflow="ellipsis")
        shown = Group(Text(verdict, "bold"), line) if verdict else line
        self._live.update(shown, refresh=True)

    def stop(self) -> None:
        """Clear the progress line."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def end(self, explanation: Explanation, args: argparse.Namespace) -> None:
        """Replace the progress line by the report; with `--quiet`, by the verdict."""
        from fullgraph.diagnose.report import render

        self.stop()
        if args.quiet:
            self.console.print(explanation.verdict, highlight=False, markup=False)
        elif not self.quiet:
            render(explanation, self.console, args.verbose, args.cause)


def write(
    explanation: Explanation,
    args: argparse.Namespace,
    saved: dict[str, object] | None,
    draw: LiveReport,
) -> None:
    """Write `explanation` to the outputs that the arguments select.

    If `saved`, an earlier report, is not None, its difference to `explanation` is written, too.
    """
    draw.end(explanation, args)
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


def torchrun_rank() -> str:
    """Return "1 of 4" in a process that torchrun started beside others; else ""."""
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "1")
    return f"{rank} of {size}" if rank and size != "1" else ""


def named_by_rank(path: str | None, rank: str) -> str | None:
    """Return "report-rank1.html" for the path "report.html" and the rank "1 of 4"."""
    if path is None or not rank:
        return path
    return str(Path(path).with_stem(f"{Path(path).stem}-rank{rank.partition(' ')[0]}"))


def saved_report(path: str | None) -> dict[str, object] | None:
    """Return the report saved in the file `path`; None if `path` is None.

    Raises FullgraphError if the file is not a saved report.
    """
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
