"""`fullgraph bisect`: which stage of the compiler is wrong."""

from __future__ import annotations

import argparse
import json
import sys

from fullgraph.commands.arguments import BAD_INPUT, Commands, add_failure, failure_arguments


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "bisect", help="which stage of the compiler is wrong, from Dynamo to Inductor"
    )
    parser.set_defaults(command=_run_bisect)
    add_failure(parser)
    parser.add_argument(
        "--rungs-only",
        dest="inside",
        action="store_false",
        help="do not look for the pass, lowering or decomposition",
    )


def _run_bisect(args: argparse.Namespace) -> int:
    from fullgraph.minifier.bisect.bisect import bisect

    with failure_arguments(args) as arguments:
        bisection = bisect(**arguments, inside=args.inside)
    print(json.dumps(bisection.to_dict(), indent=1) if args.json else bisection)
    if bisection.refused:
        print(f"fullgraph: {bisection.refused}", file=sys.stderr)
        return BAD_INPUT
    return 0
