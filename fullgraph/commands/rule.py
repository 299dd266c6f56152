"""`fullgraph rule`: what a rule does, and when it refuses."""

from __future__ import annotations

import argparse

from fullgraph.commands.arguments import Commands, add_command
from fullgraph.compiler.errors import FullgraphError


def add(commands: Commands) -> None:
    """Declare the command `fullgraph rule`."""
    parser = add_command(commands, "rule", "a rule's page; without a code, all rules", "", "FG201")
    parser.set_defaults(command=_run_rule)
    parser.add_argument(
        "code",
        nargs="?",
        metavar="FG101",
        help="code or name of a rule, such as FG201 or keep-tensor",
    )


def _run_rule(args: argparse.Namespace) -> int:
    """Run `fullgraph rule`."""
    from fullgraph.rewrites.rule_pages import rule_pages  # which needs no torch

    pages = rule_pages().values()
    if args.code is None:
        for page in pages:
            print(f"{page.code}  {page.name:28} {page.summary}")
        return 0
    for page in pages:
        if args.code in (page.code, page.name):
            print(f"{page.code} {page.name}\n\n{page.doc}")
            return 0
    raise FullgraphError(f"There is no rule {args.code}: `fullgraph rule` lists them all.")
