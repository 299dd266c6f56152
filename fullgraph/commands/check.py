"""`fullgraph check`: graph breaks and recompiles in source, with nothing run."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from fullgraph.commands.arguments import BAD_INPUT, Commands, add_color, add_command
from fullgraph.compiler.errors import FullgraphError

if TYPE_CHECKING:
    from fullgraph.rewrites.check import CheckResult


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "check",
        "graph breaks and recompiles in source files, with nothing run",
        "src",
        "model.py --strict --torch 2.13",
        "src --select FGB1 --ignore FGB201",
    )
    parser.set_defaults(command=_run_check)
    parser.add_argument(
        "paths", nargs="*", default=["."], metavar="PATH", help="files and folders; default: ."
    )
    parser.add_argument(
        "--torch", metavar="2.13", help="version of torch to check for; default: the installed one"
    )
    parser.add_argument(
        "--python", metavar="3.12", help="version of Python to check for; default: the running one"
    )
    parser.add_argument(
        "--strict", action="store_true", help="also show findings that are likely, not proved"
    )
    parser.add_argument(
        "--select",
        action="append",
        default=[],
        metavar="FGB1",
        help="only the codes that begin so, as in --select FGB1; repeatable",
    )
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="FGB1",
        help="not the codes that begin so, as in --ignore FGB201; repeatable",
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="not the paths that match, as in --exclude 'tests/*'; repeatable",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the report")
    add_color(parser)


def _run_check(args: argparse.Namespace) -> int:
    """Run `fullgraph check`."""
    from fullgraph.rewrites.check import check

    result = check(
        args.paths or ["."],
        torch=args.torch,
        python=args.python,
        strict=args.strict,
        select=args.select,
        ignore=args.ignore,
        exclude=args.exclude,
    )
    for one in result.unreadable:
        print(f"fullgraph: {one}", file=sys.stderr)
    if result.exit_code == BAD_INPUT:
        raise FullgraphError("No file could be read.")
    _show(result, args)
    return result.exit_code


def _show(result: CheckResult, args: argparse.Namespace) -> None:
    """Print the findings as JSON or as text."""
    if args.json:
        print(json.dumps(result.to_dict(), indent=1))
        return
    from fullgraph.rewrites.check.text import render

    render(result, color=args.color)
