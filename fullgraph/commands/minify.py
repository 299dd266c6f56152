"""`fullgraph minify`: from a failing program to a script of a few lines."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fullgraph.commands.arguments import BAD_INPUT, Commands, add_failure, failure_arguments

if TYPE_CHECKING:
    from fullgraph.minifier.minify import Progress


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "minify", help="the smallest script that shows what the compiler does wrong"
    )
    parser.set_defaults(command=_run_minify)
    add_failure(parser)
    parser.add_argument("--out", metavar="FILE", help="where to write the script")
    parser.add_argument("--jobs", type=int, metavar="N", help="candidates at a time")
    parser.add_argument(
        "--after",
        choices=("dynamo", "aot"),
        help="reduce Dynamo's graph or AOTAutograd's; default: the first that fails alone",
    )
    parser.add_argument("--issue", action="store_true", help="print the text for an issue tracker")
    parser.add_argument(
        "--redact", action="store_true", help="rename what is not needed for the failure"
    )
    parser.add_argument(
        "--torch", metavar="2.14.0,2.15.0", help="run the script on these versions, too"
    )


def _run_minify(args: argparse.Namespace) -> int:
    from fullgraph.minifier.minify import minify

    file = Path(args.target.partition(".py:")[0] + ".py" if ".py:" in args.target else args.target)
    line = _Line(sys.stderr.isatty())
    try:
        with failure_arguments(args) as arguments:
            found = minify(
                **arguments,
                out=args.out,
                jobs=args.jobs,
                repro_after=args.after,
                source=_source(file),
                progress=line.show,
            )
    except KeyboardInterrupt:
        line.end()
        if args.out and Path(args.out).exists():
            print(f"fullgraph: the best so far is in {args.out}.", file=sys.stderr)
        raise
    line.end()
    if found.text and args.redact:
        found = found.redacted()
    if args.json:
        print(json.dumps(found.to_dict(), indent=1))
    elif args.issue and found.text:
        print(found.issue())
    else:
        print(found)
    if found.text and args.torch:
        for there in found.elsewhere(args.torch.split(",")):
            print(f"torch {there.version}: {there.state} {there.detail}".rstrip())
    if found.refused:
        print(f"fullgraph: {found.refused}", file=sys.stderr)
        return BAD_INPUT
    return 0


def _source(file: Path) -> str | None:
    """The text of a file that has a `build()`, to be reduced as it stands."""
    if file.suffix != ".py" or not file.is_file():
        return None
    text = file.read_text()
    return text if "\ndef build(" in text else None


class _Line:
    """One line on stderr that tells how far it is."""

    def __init__(self, live: bool) -> None:
        self._live, self._start, self._phase = live, time.monotonic(), ""

    def show(self, now: Progress) -> None:
        size = f"{now.before} → {now.now}, " if now.before else ""
        seconds = time.monotonic() - self._start
        text = f"{now.phase}: {size}{now.calls} tried, {now.cached} known, {seconds:.0f} s"
        if self._live:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
        elif now.phase != self._phase:
            print(text, file=sys.stderr, flush=True)
        self._phase = now.phase

    def end(self) -> None:
        if self._live and self._phase:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
