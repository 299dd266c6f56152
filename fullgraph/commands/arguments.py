"""Arguments that several commands declare: the program, its compilation and its failure."""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from fullgraph.compiler.errors import FullgraphError
from fullgraph.target_spec import parse_input, parse_target
from fullgraph.waiting import announce

if TYPE_CHECKING:
    from rich.console import Console

    from fullgraph.target import LoadedTarget

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Commands = object

BAD_INPUT = 2
"""Exit code for bad input, which the command explains in one sentence."""


def add_command(
    commands: Commands, name: str, summary: str, *examples: str
) -> argparse.ArgumentParser:
    """Declare the command `name` with its help; return its parser, to add arguments to.

    `summary` becomes the help. `examples` are arguments in example command lines.
    """
    lines = "\n".join(f"  fullgraph {name} {example}".rstrip() for example in examples)
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"examples:\n{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(name=name)
    parser.add_argument(
        "--traceback",
        action="store_true",
        help="for an error, print Python's traceback as well as the sentence",
    )
    return parser


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    """Declare `-q`, `-v` and `--color` of a command that shows its progress."""
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "-q", "--quiet", action="store_true", help="no progress and no notes: the result alone"
    )
    shown.add_argument(
        "-v", "--verbose", action="store_true", help="each step on a line of its own, with its time"
    )
    add_color(parser)


def add_color(parser: argparse.ArgumentParser) -> None:
    """Declare `--color`."""
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colors and links: auto means on a terminal only; --color=never for a log file",
    )


def add_torch(parser: argparse.ArgumentParser) -> None:
    """Declare `--torch` of the commands that read source."""
    parser.add_argument(
        "--torch",
        metavar="2.13",
        help="version of torch to check for; default: the installed one, else the lowest that the "
        "project requires, else the newest known",
    )


def console(args: argparse.Namespace, file: TextIO | None = None) -> Console:
    """Return a console for `file`, by default stdout, that follows `--color`."""
    from rich.console import Console

    return Console(
        file=file or sys.stdout,
        highlight=False,
        force_terminal={"always": True, "never": False}.get(args.color),
        no_color=True if args.color == "never" else None,
    )


def add_target(parser: argparse.ArgumentParser) -> None:
    """Declare the positional argument that names the program, and `--input`."""
    parser.add_argument(
        "target",
        metavar="FILE.py[:NAME] | pkg.mod:NAME",
        help="module, class, function or factory, such as model.py:Net or model.py:make_model",
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="4x3x32x32[:DTYPE]",
        help="shape of a random input, instead of what the file says; once for each argument, as "
        "in --input 4x16:int64 --input 4x16:bool",
    )


def add_compilation(
    parser: argparse.ArgumentParser, *, backend: str = "eager", mode: bool = True
) -> None:
    """Declare the arguments of torch.compile.

    `backend` is the default that the help of `--backend` names; `mode` says whether to declare
    `--mode`.
    """
    parser.add_argument(
        "--backend",
        metavar="NAME",
        help=f"backend of torch.compile, as in --backend inductor; default: {backend}",
    )
    if mode:
        parser.add_argument(
            "--mode",
            metavar="NAME",
            help="mode of torch.compile, as in --backend inductor --mode max-autotune",
        )
    parser.add_argument(
        "--dynamic",
        action="store_true",
        default=None,
        help="compile with dynamic shapes, as torch.compile(dynamic=True) does",
    )
    parser.add_argument(
        "--train", action="store_true", help="train mode, with the backward of the summed output"
    )


def load(args: argparse.Namespace) -> LoadedTarget:
    """Import torch and the program that the command line names; return the program.

    Random numbers are those of seed 0, so that each run of a command gets the same program. Unless
    `--quiet`, slow imports and notes on the program are reported on stderr.
    """
    spec, inputs = parse_target(args.target), [parse_input(text) for text in args.input]
    quiet = getattr(args, "quiet", False)
    with announce("importing torch", quiet=quiet or "torch" in sys.modules):
        import torch
    torch.manual_seed(0)
    random.seed(0)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(0)
    with announce(f"importing {spec.where}", quiet=quiet):
        from fullgraph.target import load_target

        target = load_target(spec, train=args.train, inputs=inputs)
    if not quiet:
        for note in target.notes:
            print(f"fullgraph: {note}", file=sys.stderr)
    return target


def program_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Load the program named on the command line; return keyword arguments for `explain`.

    `fix` accepts the same arguments.
    """
    target = load(args)
    return {
        "model": target.model,
        "inputs": target.inputs,
        "calls": target.calls,
        "loss": True if args.train else None,
        "backend": args.backend or "eager",
        "mode": getattr(args, "mode", None),
        "dynamic": args.dynamic,
    }


def add_failure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `bisect` and `minify`: the program, and what counts as a failure."""
    add_target(parser)
    add_compilation(parser, backend="inductor")
    parser.add_argument(
        "--tol",
        type=float,
        metavar="T",
        help="relative and absolute tolerance, as in --tol 1e-3; default: by dtype and operation",
    )
    parser.add_argument(
        "--no-strides",
        dest="strides",
        action="store_false",
        help="do not count different strides or aliasing of an output as a failure",
    )
    parser.add_argument(
        "--kind",
        choices=("break", "recompile", "slow"),
        help="look only for this kind of failure, as in --kind recompile",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=300.0,
        metavar="S",
        help="a run longer than S seconds counts as a hang, as in --seconds 30; default: 300",
    )
    parser.add_argument(
        "--budget",
        type=float,
        metavar="S",
        help="wall time of the whole command in seconds, as in --budget 600; default: no limit",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the report")
    add_verbosity(parser)


@contextmanager
def failure_arguments(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Load the program named on the command line; yield keyword arguments for `bisect`.

    `minify` accepts the same arguments. Inside the block, the settings and modes that the program's
    file asks for are in force.
    """
    target = load(args)
    own = target.options
    with target.in_force():
        yield {
            "model": target.model,
            "inputs": target.inputs,
            "calls": target.calls,
            "loss": True if args.train else own.get("loss"),
            "backend": args.backend or own.get("backend", "inductor"),
            "mode": args.mode,
            "dynamic": args.dynamic or own.get("dynamic"),
            "tol": args.tol,
            "check_strides": args.strides and own.get("check_strides", True),
            "kind": args.kind,
            "seconds": args.seconds,
            "budget": args.budget,
        }


def check_output(*paths: str | None) -> None:
    """Raise FullgraphError, before the work, for files that cannot be written; skip None."""
    for path in map(Path, filter(None, paths)):
        if path.is_dir():
            raise FullgraphError(f"{path} is a folder: give the path of a file.")
        if not path.parent.is_dir():
            raise FullgraphError(f"{path} cannot be written: there is no folder {path.parent}.")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise FullgraphError(f"{path} cannot be written: no permission; give another path.")


def close_stdout() -> None:
    """Discard all further output on stdout, after its reader, such as `head`, closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
