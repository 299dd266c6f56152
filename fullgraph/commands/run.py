"""`fullgraph run`: an unmodified script under the recorder, with a report at its end."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from fullgraph.commands.arguments import Commands
from fullgraph.commands.outputs import Stream, add_outputs, saved_report, write

if TYPE_CHECKING:
    from fullgraph.diagnose.explanation import Explanation


def add(commands: Commands) -> None:
    """Declare the command."""
    run = commands.add_parser("run", help="a script under the recorder, with a report at its end")
    run.set_defaults(command=_run_script)
    add_outputs(run)
    run.add_argument("script", metavar="SCRIPT")
    run.add_argument("args", nargs=argparse.REMAINDER, metavar="args…")


def _run_script(args: argparse.Namespace) -> int:
    from fullgraph.script import run

    saved = saved_report(args.against)
    draw = Stream(quiet=args.json, file=sys.stdout if args.json else sys.stderr)

    def report(explanation: Explanation) -> None:
        draw.update(explanation)
        write(explanation, args, saved, draw)

    return run(args.script, args.args, report)
