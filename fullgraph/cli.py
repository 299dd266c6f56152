"""The command line: `fullgraph explain`, `fullgraph run`, `fullgraph backends`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fullgraph.compiler.errors import FullgraphError

if TYPE_CHECKING:
    from fullgraph.diagnose.explanation import Explanation

BAD_INPUT = 2
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code.

    0: done. 1: done, and `--exit-nonzero-on-break` found a break. 2: bad input, said in one
    sentence. `run` returns the script's own code.
    """
    args = _parser().parse_args(argv)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fullgraph",
        description="What keeps a model from torch.compile(model, fullgraph=True).",
    )
    parser.add_argument("--version", action="version", version=f"fullgraph {version('fullgraph')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

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
    _add_outputs(explain)
    explain.add_argument(
        "--exit-nonzero-on-break", action="store_true", help="exit 1 unless it is one graph"
    )

    run = commands.add_parser("run", help="a script under the recorder, with a report at its end")
    run.set_defaults(command=_run)
    _add_outputs(run)
    run.add_argument("script", metavar="SCRIPT")
    run.add_argument("args", nargs=argparse.REMAINDER, metavar="args…")

    backends = commands.add_parser("backends", help="the backends and the stage each adds")
    backends.set_defaults(command=_backends)
    return parser


def _add_outputs(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON instead of the report")
    command.add_argument("--html", metavar="FILE", help="write the report as one HTML page")
    command.add_argument("--against", metavar="FILE", help="compare with a saved --json")


def _explain(args: argparse.Namespace) -> int:
    from fullgraph.diagnose.explain import explanations
    from fullgraph.diagnose.program import program
    from fullgraph.target import load

    saved = _saved(args.against)
    target = load(args.target)
    if args.train:
        if not hasattr(target.model, "train"):
            raise FullgraphError(f"--train needs a module, and {target.name} is a function.")
        target.model.train()
    subject = program(
        target.model,
        target.inputs,
        calls=target.calls,
        loss=True if args.train else None,
        backend=args.backend,
        mode=args.mode,
        dynamic=args.dynamic,
    )
    draw = _Stream(quiet=args.json)
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
            _write(explanation, args, saved, draw)
        raise
    assert explanation is not None
    _write(explanation, args, saved, draw)
    if explanation.error is not None or explanation.crashes:
        said = explanation.error or _first_crash(explanation)
        print(f"fullgraph: {said}", file=sys.stderr)
        return BAD_INPUT
    whole = explanation.default.ok and explanation.fullgraph.ok is not False
    return 1 if args.exit_nonzero_on_break and not whole else 0


def _run(args: argparse.Namespace) -> int:
    from fullgraph.script import run

    saved = _saved(args.against)
    draw = _Stream(quiet=args.json, file=sys.stdout if args.json else sys.stderr)

    def report(explanation: Explanation) -> None:
        draw.update(explanation)
        _write(explanation, args, saved, draw)

    return run(args.script, args.args, report)


def _backends(args: argparse.Namespace) -> int:
    from fullgraph.compiler.ladder import backends

    rows = backends()
    width = max(len(name) for name, _ in rows)
    for name, adds in rows:
        print(f"{name:{width}}  {adds}".rstrip())
    return 0


class _Stream:
    """A report that grows on the terminal: the head at once, then each cause as it is found."""

    def __init__(self, quiet: bool, file: Any = None) -> None:
        from rich.console import Console

        self.quiet = quiet
        self.console = Console(file=file or sys.stdout, highlight=False)
        self.shown: set[str] = set()
        self.begun = False

    def update(self, explanation: Explanation) -> None:
        """Draw what `explanation` knows beyond the last one."""
        from fullgraph.diagnose.report.terminal import render_cause, render_head

        if self.quiet:
            return
        tried = explanation.fullgraph.ok is not None
        if not tried and not explanation.complete and explanation.causes:
            if not self.begun and self.console.is_terminal:  # someone is waiting
                self.console.print(explanation.verdict, highlight=False, markup=False)
                self.begun = True
            return
        if not self.shown and explanation.causes:
            render_head(explanation, self.console)
        for cause in explanation.causes:
            name = f"{cause.gb_type} {cause.position.key}"
            if name not in self.shown:
                self.shown.add(name)
                render_cause(cause, self.console, tried=tried)

    def end(self, explanation: Explanation) -> None:
        """Draw what comes after the causes."""
        from fullgraph.diagnose.report.terminal import render, render_rest

        if self.quiet:
            return
        if not self.shown:
            render(explanation, self.console)
        else:
            render_rest(explanation, self.console)
            if any(cause.hidden for cause in explanation.causes):
                self.console.print(explanation.verdict, highlight=False, markup=False)


def _write(explanation: Explanation, args: argparse.Namespace, saved: Any, draw: _Stream) -> None:
    draw.end(explanation)
    difference = explanation.diff(saved) if saved is not None else None
    if args.json:
        data = explanation.to_dict()
        if difference is not None:
            data["against"] = difference.to_dict()
        print(json.dumps(data, indent=2))
    elif difference is not None:
        from fullgraph.diagnose.report.terminal import render_difference

        render_difference(difference, draw.console)
    if args.html:
        try:
            explanation.to_html(args.html)
        except OSError as error:
            raise FullgraphError(
                f"{args.html} cannot be written: {error.strerror}; give another path."
            ) from None


def _saved(path: str | None) -> dict[str, Any] | None:
    if path is None:
        return None
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise FullgraphError(
            f"{path} cannot be read: {error.strerror}; save a report with --json first."
        ) from None
    except ValueError:
        raise FullgraphError(
            f"{path} holds no JSON: save a report with `fullgraph explain … --json > FILE`."
        ) from None
    from fullgraph.diagnose.report.data import from_dict

    from_dict(data)  # says in one sentence if it is not one of ours
    return dict(data)


def _first_crash(explanation: Explanation) -> str:
    crash = explanation.crashes[0]
    where = f" at {crash.position.file}:{crash.position.line}" if crash.position else ""
    message = crash.message.partition("\n")[0]
    return (
        f"torch.compile crashed in {crash.stage}{where}: {crash.error}: {message}; this is a bug "
        "of the compiler or its backend, not of the model."
    )
