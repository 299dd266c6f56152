"""`fullgraph backends`: the backends and the stage each adds."""

from __future__ import annotations

import argparse

from fullgraph.commands.arguments import Commands, add_command


def add(commands: Commands) -> None:
    """Declare the command `fullgraph backends`."""
    parser = add_command(commands, "backends", "the backends, and the stage each adds", "")
    parser.set_defaults(command=_run_backends)


def _run_backends(args: argparse.Namespace) -> int:
    """Run `fullgraph backends`."""
    from fullgraph.compiler.ladder import list_backends

    rows = list_backends()
    width = max(len(name) for name, _ in rows)
    for name, adds in rows:
        print(f"{name:{width}}  {adds}".rstrip())
    return 0
