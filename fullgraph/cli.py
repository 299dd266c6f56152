"""The command line: runs the commands that `fullgraph.commands` declares."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence

from fullgraph import __version__
from fullgraph.commands import (
    backends,
    bisect,
    check,
    completion,
    explain,
    fix,
    lsp,
    minify,
    rule,
    run,
)
from fullgraph.commands.arguments import BAD_INPUT, close_stdout
from fullgraph.commands.project_defaults import apply_project_defaults
from fullgraph.compiler.errors import FullgraphError

INTERRUPTED = 130
INSTALLED_BY: Mapping[str, str] = {
    "torch": "fullgraph[torch]",
    "pygls": "fullgraph[lsp]",
    "lsprotocol": "fullgraph[lsp]",
}
"""Import names of optional packages, with what `pip install` takes to install them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code.

    0: done. 1: done, and the command found what it was asked to fail on, such as a graph break with
    `--exit-nonzero-on-break`. 2: bad input, explained in one sentence. The command `run` returns
    the exit code of the script.
    """
    parser, commands = command_line()
    args = parser.parse_args(argv)
    try:
        if apply_project_defaults(commands):
            args = parser.parse_args(argv)
        command: Callable[[argparse.Namespace], int] = args.command
        return command(args)
    except FullgraphError as error:
        if args.traceback:
            traceback.print_exception(error)
        print(f"fullgraph: {error}", file=sys.stderr)
        return BAD_INPUT
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in INSTALLED_BY:
            raise
        print(f"fullgraph: {_missing_package_message(args.name, error.name)}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        if args.traceback:
            traceback.print_exc()
        print("fullgraph: interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `fullgraph … | head`
        close_stdout()
        return 0


def _missing_package_message(command: str, module: str) -> str:
    """Return the message for a command that needs `module`, which is not installed."""
    package = module.partition(".")[0]
    own = ", or your own build of torch 2.10 or later" if package == "torch" else ""
    return (
        f"`fullgraph {command}` needs {package}, which is not installed: run "
        f"`pip install '{INSTALLED_BY[package]}'`{own}."
    )


def command_line() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the parser of the whole command line, and the parser of each command by name."""
    parser = argparse.ArgumentParser(
        prog="fullgraph",
        description="What keeps a model from torch.compile(model, fullgraph=True).",
        epilog="`fullgraph COMMAND --help` shows the flags of a command, with examples. "
        "Defaults of flags are read from [tool.fullgraph] in pyproject.toml.",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"fullgraph {__version__}",
        help="print the version and exit",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in (explain, fix, check, lsp, rule, bisect, minify, run, backends, completion):
        module.add(commands)
    return parser, dict(commands.choices)
