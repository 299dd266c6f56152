"""The command line: what is declared in `fullgraph.commands`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version

from fullgraph.commands import backends, bisect, explain, fix, minify, rule, run
from fullgraph.commands.arguments import BAD_INPUT
from fullgraph.compiler.errors import FullgraphError

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code.

    0: done. 1: done, and `--exit-nonzero-on-break` found a break. 2: bad input, said in one
    sentence. `run` returns the script's own code.
    """
    args = _make_parser().parse_args(argv)
    try:
        command: Callable[[argparse.Namespace], int] = args.command
        return command(args)
    except FullgraphError as error:
        print(f"fullgraph: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("fullgraph: interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `fullgraph … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fullgraph",
        description="What keeps a model from torch.compile(model, fullgraph=True).",
    )
    parser.add_argument("--version", action="version", version=f"fullgraph {version('fullgraph')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in (explain, fix, rule, bisect, minify, run, backends):
        module.add(commands)
    return parser
