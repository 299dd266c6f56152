"""`fullgraph run`: runs an unmodified script under the recorder, and reports at its end."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from fullgraph.commands.arguments import Commands, add_command, check_output
from fullgraph.commands.outputs import (
    LiveReport,
    add_outputs,
    named_by_rank,
    saved_report,
    torchrun_rank,
    write,
)

if TYPE_CHECKING:
    from fullgraph.diagnose.explanation import Explanation


def add(commands: Commands) -> None:
    """Declare the command `fullgraph run`."""
    run = add_command(
        commands,
        "run",
        "a script under the recorder, with a report on stderr at its end",
        "train.py --epochs 1",
        "--html report.html -m package.train",
    )
    run.set_defaults(command=_run_run)
    add_outputs(run)
    run.add_argument(
        "-m", dest="module", action="store_true", help="SCRIPT is a module, as for `python -m`"
    )
    run.add_argument("script", metavar="SCRIPT", help="Python script, such as train.py")
    run.add_argument(
        "args", nargs=argparse.REMAINDER, metavar="args…", help="arguments of the script"
    )


def _run_run(args: argparse.Namespace) -> int:
    """Run `fullgraph run`."""
    rank = torchrun_rank()
    args.html = named_by_rank(args.html, rank)
    check_output(args.html)
    from fullgraph.script import run

    saved = saved_report(args.against)
    draw = LiveReport(
        quiet=args.json, file=sys.stdout if args.json else sys.stderr, color=args.color
    )

    def report(explanation: Explanation) -> None:
        """Write the explanation of the script to the selected outputs."""
        draw.update(explanation)
        write(explanation, args, saved, draw)

    return run(args.script, args.args, report, module=args.module, rank=rank)
