"""`fullgraph explain`: every graph break of a model, by cause, at its expression."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from fullgraph.commands import BAD_INPUT, Commands
from fullgraph.commands.outputs import Stream, add_outputs, saved_report, write

if TYPE_CHECKING:
    from fullgraph.diagnose.explanation import Explanation


def add(commands: Commands) -> None:
    """Declare the command."""
    explain = commands.add_parser(
        "explain", help="every graph break of a model, by cause, at its expression"
    )
    explain.set_defaults(command=_explain)
    explain.add_argument("target", metavar="FILE.py[:NAME] | pkg.mod:NAME")
    explain.add_argument("--backend", default="eager", metavar="NAME", help="default: eager")
    explain.add_argument("--mode", metavar="NAME", help="torch.compile's mode")
    explain.add_argument("--dynamic", action="store_true", default=None)
    explain.add_argument(
        "--train", action="store_true", help="train mode, with the backward of the summed output"
    )
    explain.add_argument("--measure", action="store_true", help="time eager against compiled")
    explain.add_argument("--no-unmask", dest="unmask", action="store_false")
    explain.add_argument("--rounds", type=int, default=12, metavar="N", help="rounds of unmasking")
    explain.add_argument("--seconds", type=float, default=60.0, metavar="S", help="its wall time")
    add_outputs(explain)
    explain.add_argument(
        "--exit-nonzero-on-break", action="store_true", help="exit 1 unless it is one graph"
    )


def _explain(args: argparse.Namespace) -> int:
    from fullgraph.compiler.program import program
    from fullgraph.diagnose.explain import explanations
    from fullgraph.target import load

    saved = saved_report(args.against)
    target = load(args.target)
    if args.train:
        target.train()
    subject = program(
        target.model,
        target.inputs,
        calls=target.calls,
        loss=True if args.train else None,
        backend=args.backend,
        mode=args.mode,
        dynamic=args.dynamic,
    )
    draw = Stream(quiet=args.json)
    steps = explanations(
        subject,
        unmask=args.unmask,
        measure=args.measure,
        rounds=args.rounds,
        seconds=args.seconds,
    )
    explanation = None
    try:
        for explanation in steps:
            draw.update(explanation)
    except KeyboardInterrupt:
        if explanation is not None:
            write(explanation, args, saved, draw)
        raise
    assert explanation is not None
    write(explanation, args, saved, draw)
    if explanation.error is not None or explanation.crashes:
        said = explanation.error or _first_crash(explanation)
        print(f"fullgraph: {said}", file=sys.stderr)
        return BAD_INPUT
    whole = explanation.default.ok and explanation.fullgraph.ok is not False
    return 1 if args.exit_nonzero_on_break and not whole else 0


def _first_crash(explanation: Explanation) -> str:
    crash = explanation.crashes[0]
    where = f" at {crash.position.file}:{crash.position.line}" if crash.position else ""
    message = crash.message.partition("\n")[0]
    return (
        f"torch.compile crashed in {crash.stage}{where}: {crash.error}: {message}; this is a bug "
        "of the compiler or its backend, not of the model."
    )
