"""`fullgraph explain`: every graph break of a model, by cause, at its expression."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from fullgraph.commands.arguments import (
    BAD_INPUT,
    Commands,
    add_command,
    add_compilation,
    add_target,
    check_output,
    program_arguments,
)
from fullgraph.commands.outputs import LiveReport, add_outputs, saved_report, write

if TYPE_CHECKING:
    from fullgraph.diagnose.explanation import Explanation


def add(commands: Commands) -> None:
    """Declare the command `fullgraph explain`."""
    explain = add_command(
        commands,
        "explain",
        "every graph break of a model, by cause, at its expression",
        "model.py:Net --input 4x3x32x32",
        "model.py:make_model --train --seconds 20",
        "model.py:Net --device h200 -v",
        "model.py:Net --json > saved.json",
        "model.py:Net --against saved.json --exit-nonzero-on-break",
    )
    explain.set_defaults(command=_run_explain)
    add_target(explain)
    add_compilation(explain)
    explain.add_argument("--measure", action="store_true", help="time eager against compiled")
    explain.add_argument(
        "--verify",
        action="store_true",
        help="compile what fullgraph=True captures whole with Inductor, and compare with eager",
    )
    explain.add_argument(
        "--device",
        default="cpu",
        metavar="NAME",
        help="estimate for this device what joining graphs saves: cpu (this machine), a100, h100, "
        "h200 or rtx4090",
    )
    explain.add_argument(
        "--no-unmask",
        dest="unmask",
        action="store_false",
        help="do not look for causes hidden behind others",
    )
    explain.add_argument(
        "--rounds",
        type=int,
        default=12,
        metavar="N",
        help="iterations of the search for hidden causes, as in --rounds 3; default: 12",
    )
    explain.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="wall time of everything, as in --seconds 20; default: 60 for the search alone",
    )
    add_outputs(explain)
    explain.add_argument(
        "--facts",
        metavar="FILE",
        help="write which expressions are tensors in a run in eager, for `fullgraph check --facts`",
    )
    explain.add_argument(
        "--exit-nonzero-on-break", action="store_true", help="exit 1 unless it is one graph"
    )


def _run_explain(args: argparse.Namespace) -> int:
    """Run `fullgraph explain`."""
    check_output(args.html, args.facts)
    saved = saved_report(args.against)
    draw = LiveReport(quiet=args.json, color=args.color)
    latest: list[Explanation] = []

    def show(explanation: Explanation) -> None:
        """Store the latest explanation, and show it on the progress line."""
        latest[:] = [explanation]
        draw.update(explanation)

    try:
        explanation = _explain_target(args, draw, show)
    except KeyboardInterrupt:
        if latest:
            write(replace(latest[0], error="It was interrupted."), args, saved, draw)
        raise
    finally:
        draw.stop()
    write(explanation, args, saved, draw)
    if args.traceback:
        for text in (explanation.traceback, *(crash.traceback for crash in explanation.crashes)):
            print(text, end="", file=sys.stderr)
    if explanation.error is not None or explanation.crashes:
        said = explanation.error or _first_crash(explanation)
        if args.json or not (sys.stdout.isatty() and sys.stderr.isatty()):  # else it is shown
            print(f"fullgraph: {said}", file=sys.stderr)
        return BAD_INPUT
    whole = explanation.default.ok and explanation.fullgraph.ok is not False
    return 1 if args.exit_nonzero_on_break and not whole else 0


def _explain_target(
    args: argparse.Namespace, draw: LiveReport, progress: Callable[[Explanation], None]
) -> Explanation:
    """Load the target named on the command line, explain it, and return the explanation.

    `draw` shows which phase runs; `progress` receives each intermediate explanation.
    """
    program = program_arguments(args)

    from fullgraph.rewrites.fix import explain, record_facts

    if args.facts:
        count = record_facts(args.facts, **program)
        print(f"fullgraph: wrote {count} facts to {args.facts}", file=sys.stderr)
    draw.begin("Tracing in default mode …")
    return explain(
        **program,
        unmask=args.unmask,
        measure=args.measure,
        verify=args.verify,
        device=args.device,
        rounds=args.rounds,
        seconds=args.seconds,
        progress=progress,
    )


def _first_crash(explanation: Explanation) -> str:
    """Return the error message for the first compiler crash in an explanation."""
    crash = explanation.crashes[0]
    where = f" at {crash.position.file}:{crash.position.line}" if crash.position else ""
    message = crash.message.partition("\n")[0]
    failed = f"torch.compile failed in {crash.stage}{where}: {crash.error}: {message.rstrip('.')}."
    return f"{failed} {crash.conclusion}"
