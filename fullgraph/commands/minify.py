"""`fullgraph minify`: reduces a failing program to a script of a few lines."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fullgraph.commands.arguments import (
    BAD_INPUT,
    Commands,
    add_command,
    add_failure,
    check_output,
    failure_arguments,
)
from fullgraph.waiting import ProgressLine

if TYPE_CHECKING:
    from fullgraph.minifier.minify import Progress


def add(commands: Commands) -> None:
    """Declare the command `fullgraph minify`."""
    parser = add_command(
        commands,
        "minify",
        "the smallest script that shows what the compiler does wrong",
        "model.py:Net --out repro.py",
        "model.py:Net --train --issue",
        "minifier_launcher.py",
    )
    parser.set_defaults(command=_run_minify)
    add_failure(parser)
    parser.add_argument(
        "--out", metavar="FILE", help="where to write the script, as in --out repro.py"
    )
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="candidates at a time, as in --jobs 2"
    )
    parser.add_argument(
        "--after",
        choices=("dynamo", "aot"),
        help="reduce Dynamo's graph or AOTAutograd's; default: the first that fails alone",
    )
    parser.add_argument(
        "--issue",
        action="store_true",
        help="print the text for an issue tracker; with --json, as one of its fields",
    )
    parser.add_argument(
        "--redact", action="store_true", help="rename what is not needed for the failure"
    )
    parser.add_argument(
        "--torch", metavar="2.14.0,2.15.0", help="run the script on these versions of torch, too"
    )


def _run_minify(args: argparse.Namespace) -> int:
    """Run `fullgraph minify`."""
    file = Path(args.target.partition(".py:")[0] + ".py" if ".py:" in args.target else args.target)
    check_output(args.out)
    line = _Progress(args)
    try:
        with failure_arguments(args) as arguments:
            from fullgraph.minifier.minify import minify

            found = minify(
                **arguments,
                out=args.out,
                jobs=args.jobs,
                repro_after=args.after,
                source=_source(file),
                progress=line.show,
            )
    except KeyboardInterrupt:
        line.end()
        if args.out and Path(args.out).exists():
            print(f"fullgraph: the best so far is in {args.out}.", file=sys.stderr)
        raise
    line.end()
    if found.text and args.redact:
        found = found.redacted()
    if args.json:
        issue = {"issue": found.issue()} if args.issue and found.text else {}
        print(json.dumps({**found.to_dict(), **issue}, indent=1))
    elif args.issue and found.text:
        print(found.issue())
    else:
        print(found)
    if found.text and args.torch:
        for there in found.elsewhere(args.torch.split(",")):
            print(f"torch {there.version}: {there.state} {there.detail}".rstrip())
    if found.refused and args.json:  # else it is shown
        print(f"fullgraph: {found.refused}", file=sys.stderr)
    return BAD_INPUT if found.refused and not found.bisection.passed else 0


def _source(file: Path) -> str | None:
    """Return the text of a Python file that defines `build()`; None for any other file.

    `minify` can reduce such a file as source.
    """
    if file.suffix != ".py" or not file.is_file():
        return None
    text = file.read_text()
    return text if "\ndef build(" in text else None


class _Progress:
    """Progress on stderr: one line on a terminal, else a line for each phase."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._phase = ""
        self._live = sys.stderr.isatty() and not args.verbose
        self._line = ProgressLine(quiet=args.quiet, verbose=not self._live and not args.quiet)

    def show(self, now: Progress) -> None:
        """Show the state of the reduction."""
        if self._live or now.phase != self._phase:
            self._line.show(str(now))
        self._phase = now.phase

    def end(self) -> None:
        self._line.end()
