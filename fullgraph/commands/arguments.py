"""Arguments that several commands declare: the program, its compilation and its failure."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Commands = object

BAD_INPUT = 2
"""Exit code for bad input, which the command explains in one sentence."""


def add_target(parser: argparse.ArgumentParser) -> None:
    """Declare the positional argument that names the program."""
    parser.add_argument("target", metavar="FILE.py[:NAME] | pkg.mod:NAME")


def add_compilation(
    parser: argparse.ArgumentParser, *, backend: str = "eager", mode: bool = True
) -> None:
    """Declare how to compile the program; `mode` says whether the command takes `--mode`."""
    parser.add_argument("--backend", metavar="NAME", help=f"default: {backend}")
    if mode:
        parser.add_argument("--mode", metavar="NAME", help="torch.compile's mode")
    parser.add_argument("--dynamic", action="store_true", default=None)
    parser.add_argument(
        "--train", action="store_true", help="train mode, with the backward of the summed output"
    )


def program_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Load the target; return the arguments of `explain` and `fix` for it."""
    from fullgraph.target import load_target

    target = load_target(args.target, train=args.train)
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
    """Declare what `bisect` and `minify` take: the program, and what counts as a failure."""
    add_target(parser)
    add_compilation(parser, backend="inductor")
    parser.add_argument("--tol", type=float, metavar="T", help="tolerance; default: by dtype")
    parser.add_argument(
        "--no-strides",
        dest="strides",
        action="store_false",
        help="other strides or aliasing of an output are no failure",
    )
    parser.add_argument(
        "--kind",
        choices=("break", "recompile", "slow"),
        help="look for this instead of anything wrong",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=300.0,
        metavar="S",
        help="a run longer than S seconds counts as a hang",
    )
    parser.add_argument("--budget", type=float, metavar="S", help="wall time in all")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the report")


@contextmanager
def failure_arguments(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Load the target; yield the arguments of `bisect` and `minify` for it.

    Meanwhile the settings and modes that the target's file asks for are in force.
    """
    from fullgraph.target import load_target

    target = load_target(args.target, train=args.train)
    for note in target.notes:
        print(f"fullgraph: {note}", file=sys.stderr)
    own = target.options
    with target.in_force():
        yield {
            "model": target.model,
            "inputs": target.inputs,
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
