"""`fullgraph bisect`: which stage of the compiler is wrong."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fullgraph.commands import BAD_INPUT, Commands


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "bisect", help="which stage of the compiler is wrong, from Dynamo to Inductor"
    )
    parser.set_defaults(command=_bisect)
    add_suspect(parser)
    parser.add_argument(
        "--rungs-only",
        dest="inside",
        action="store_false",
        help="do not look for the pass, lowering or decomposition",
    )


def add_suspect(parser: argparse.ArgumentParser) -> None:
    """What `bisect` and `minify` both take."""
    parser.add_argument("target", metavar="FILE.py[:NAME] | pkg.mod:NAME")
    parser.add_argument("--backend", metavar="NAME", help="default: inductor")
    parser.add_argument("--mode", metavar="NAME", help="torch.compile's mode")
    parser.add_argument("--dynamic", action="store_true", default=None)
    parser.add_argument(
        "--train", action="store_true", help="train mode, with the backward of the summed output"
    )
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
        "--seconds", type=float, default=300.0, metavar="S", help="a try that takes longer hangs"
    )
    parser.add_argument("--budget", type=float, metavar="S", help="wall time in all")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the report")


@contextmanager
def suspect(args: argparse.Namespace) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """The model, its inputs, and the arguments that `add_suspect` declares, with what the file
    asks for in force meanwhile."""
    from fullgraph.target import load

    target = load(args.target)
    if args.train:
        target.train()
    own = target.options
    options = {
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
    for note in target.notes:
        print(f"fullgraph: {note}", file=sys.stderr)
    with target.in_force():
        yield target.model, target.inputs, options


def _bisect(args: argparse.Namespace) -> int:
    from fullgraph.minifier.bisect.bisect import bisect

    with suspect(args) as (model, inputs, options):
        found = bisect(model, inputs, inside=args.inside, **options)
    if args.json:
        print(json.dumps(found.to_dict(), indent=1))
    else:
        print(found)
    if found.refused:
        print(f"fullgraph: {found.refused}", file=sys.stderr)
        return BAD_INPUT
    return 0
