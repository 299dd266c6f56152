"""`fullgraph fix`: rewrites that remove a model's causes, each proved."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from fullgraph.commands.arguments import (
    BAD_INPUT,
    Commands,
    add_compilation,
    add_target,
    program_arguments,
)
from fullgraph.compiler.errors import FullgraphError

if TYPE_CHECKING:
    from fullgraph.rewrites.fix import Fixes, FixStep


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "fix", help="rewrites that remove a model's causes, each proved against eager"
    )
    parser.set_defaults(command=_run_fix)
    add_target(parser)
    parser.add_argument(
        "--diff", action="store_true", help="print the edits as one diff; exit 1 if any"
    )
    parser.add_argument("--write", action="store_true", help="edit the files")
    parser.add_argument("--unsafe", action="store_true", help="the unsafe edits too")
    parser.add_argument("--force", action="store_true", help="also files with uncommitted changes")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the report")
    parser.add_argument(
        "--select", action="append", default=[], metavar="FG3", help="only these rules"
    )
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="FG3", help="not these rules"
    )
    add_compilation(parser, mode=False)
    parser.add_argument("--no-inductor", dest="inductor", action="store_false")
    parser.add_argument("--seconds", type=float, default=300.0, metavar="S", help="time to go on")


def _run_fix(args: argparse.Namespace) -> int:
    from fullgraph.rewrites.fix import fix
    from fullgraph.rewrites.rules import all_rules

    known = all_rules()
    for prefix in (*args.select, *args.ignore):
        if not any(rule.code.startswith(prefix) or rule.name.startswith(prefix) for rule in known):
            raise FullgraphError(f"There is no rule {prefix}: `fullgraph rule` lists them all.")
    fixes = fix(
        **program_arguments(args),
        select=args.select,
        ignore=args.ignore,
        inductor=args.inductor,
        seconds=args.seconds,
        progress=_print_step if sys.stderr.isatty() else None,
    )
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    written = fixes.apply(unsafe=args.unsafe, force=args.force) if args.write else ()
    _print_fixes(fixes, args)
    for path in written:
        print(f"fullgraph: wrote {path}", file=sys.stderr)
    if fixes.before.error is not None:
        print(f"fullgraph: {fixes.before.error}", file=sys.stderr)
        return BAD_INPUT
    return 1 if args.diff and fixes.diff(unsafe=args.unsafe) else 0


def _print_fixes(fixes: Fixes, args: argparse.Namespace) -> None:
    from rich.console import Console

    from fullgraph.rewrites.fix import render, render_diff

    console = Console(highlight=False)
    if args.json:
        print(json.dumps(fixes.to_dict(), indent=2))
    elif args.diff:
        render_diff(fixes.diff(unsafe=args.unsafe), console)
    else:
        render(fixes, console)


def _print_step(step: FixStep) -> None:
    """One line that stands in the place of the last."""
    print(f"\r\x1b[K{step.seconds:5.0f} s  {step.what}", end="", file=sys.stderr, flush=True)
