"""`fullgraph lsp`: the findings of `check` in an editor."""

from __future__ import annotations

import argparse

from fullgraph.commands.arguments import Commands, add_command, add_torch


def add(commands: Commands) -> None:
    """Declare the command `fullgraph lsp`."""
    parser = add_command(
        commands,
        "lsp",
        "language server on stdin and stdout: the findings of check in an editor",
        "",
        "--strict --torch 2.13",
    )
    parser.set_defaults(command=_run_lsp)
    add_torch(parser)
    parser.add_argument(
        "--python", metavar="3.12", help="version of Python to check for; default: the running one"
    )
    parser.add_argument(
        "--strict", action="store_true", help="also show findings that are likely, not proved"
    )
    for flag, what in (("--select", "only"), ("--ignore", "skip")):
        parser.add_argument(
            flag,
            action="append",
            default=[],
            metavar="FGB1",
            help=f"{what} codes with this prefix, as in {flag} FGB1; repeatable",
        )


def _run_lsp(args: argparse.Namespace) -> int:
    """Run `fullgraph lsp` until the editor ends it."""
    from fullgraph.rewrites.review.language_server import make_server

    names = ("torch", "python", "strict", "select", "ignore")
    make_server({name: getattr(args, name) for name in names}).start_io()
    return 0
