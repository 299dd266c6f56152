"""`fullgraph bisect`: which stage of the compiler is wrong."""

from __future__ import annotations

import argparse
import json
import sys

from fullgraph.commands.arguments import (
    BAD_INPUT,
    Commands,
    add_command,
    add_failure,
    failure_arguments,
)
from fullgraph.waiting import announce


def add(commands: Commands) -> None:
    """Declare the command `fullgraph bisect`."""
    parser = add_command(
        commands,
        "bisect",
        "which stage of the compiler is wrong, from Dynamo to Inductor",
        "model.py:Net",
        "model.py:Net --input 4x3x32x32 --train --tol 1e-3",
    )
    parser.set_defaults(command=_run_bisect)
    add_failure(parser)
    parser.add_argument(
        "--rungs-only",
        dest="inside",
        action="store_false",
        help="only find the failing rung, not the pass, lowering or decomposition in it",
    )


def _run_bisect(args: argparse.Namespace) -> int:
    """Run `fullgraph bisect`."""
    with failure_arguments(args) as arguments:
        from fullgraph.minifier.bisect.bisect import bisect

        with announce("running every rung, from eager to the backend", quiet=args.quiet):
            bisection = bisect(**arguments, inside=args.inside)
    if args.json:
        print(json.dumps(bisection.to_dict(), indent=1))
        if bisection.refused:
            print(f"fullgraph: {bisection.refused}", file=sys.stderr)
    else:
        print(bisection)
    return BAD_INPUT if bisection.refused and not bisection.passed else 0
