"""`fullgraph fix`: rewrites that remove a model's causes, each proved."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fullgraph.commands.arguments import (
    BAD_INPUT,
    Commands,
    add_command,
    add_compilation,
    add_target,
    add_verbosity,
    console,
    program_arguments,
)
from fullgraph.compiler.errors import FullgraphError
from fullgraph.waiting import ProgressLine

if TYPE_CHECKING:
    from fullgraph.rewrites.fix import Fixes, FixStep


def add(commands: Commands) -> None:
    """Declare the command `fullgraph fix`."""
    parser = add_command(
        commands,
        "fix",
        "rewrites that remove a model's causes, each proved against eager",
        "model.py:Net --input 4x3x32x32",
        "model.py:Net --diff | git apply",
        "model.py:Net --write --unsafe",
        "model.py:Net --select FG3 --select FG401 --seconds 60",
    )
    parser.set_defaults(command=_run_fix)
    add_target(parser)
    parser.add_argument(
        "--diff", action="store_true", help="print the edits as one diff; exit 1 if there are any"
    )
    parser.add_argument("--write", action="store_true", help="edit the files, all or none")
    parser.add_argument(
        "--unsafe", action="store_true", help="with --diff or --write, the unsafe edits too"
    )
    parser.add_argument(
        "--force", action="store_true", help="with --write, also files with uncommitted changes"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the report")
    parser.add_argument(
        "--select",
        action="append",
        default=[],
        metavar="FG3",
        help="only rules with this prefix, as in --select FG3; repeatable",
    )
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="FG3",
        help="skip rules with this prefix, as in --ignore FG113; repeatable",
    )
    add_compilation(parser, mode=False)
    parser.add_argument(
        "--no-inductor",
        dest="inductor",
        action="store_false",
        help="do not run the edited code under Inductor",
    )
    parser.add_argument(
        "--no-cache",
        dest="cache",
        action="store_false",
        help="run everything again; otherwise fix starts from what earlier runs of the same "
        "program kept in $FULLGRAPH_CACHE, by default ~/.cache/fullgraph",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=300.0,
        metavar="S",
        help="wall time of the search, as in --seconds 60; default: 300",
    )
    parser.add_argument(
        "--profile", action="store_true", help="print at the end which steps took how long"
    )
    add_verbosity(parser)


def _run_fix(args: argparse.Namespace) -> int:
    """Run `fullgraph fix`."""
    if prefixes := (*args.select, *args.ignore):
        from fullgraph.rewrites.rule_pages import rule_pages  # which needs no torch

        names = [name for page in rule_pages().values() for name in (page.code, page.name)]
        for prefix in prefixes:
            if not any(name.startswith(prefix) for name in names):
                raise FullgraphError(f"There is no rule {prefix}: `fullgraph rule` lists them all.")
    arguments = program_arguments(args)

    from fullgraph.rewrites.fix import fix, format_place, source_files
    from fullgraph.rewrites.source import check_writable

    if args.write:  # before the work, whose edits could not be written
        check_writable(source_files(arguments["model"]), force=args.force)
    line = ProgressLine(quiet=args.quiet, verbose=args.verbose)
    shown: dict[tuple[str, str, str], str] = {}
    steps: list[FixStep] = []

    def show_step(step: FixStep) -> None:
        """Print the edits that are new, with their diffs, and those whose proof has ended."""
        for edit in step.edits:
            changed = [one for one in edit.diff.splitlines() if one.startswith(("+", "-"))]
            key = edit.rule, edit.file, "\n".join(changed)
            if shown.get(key) != edit.state:
                title = f"{edit.rule} at {format_place(edit.file, edit.line)}: {edit.state}"
                line.keep(title if key in shown else f"{title}\n{edit.diff}")
                shown[key] = edit.state
        line.show(step.what)
        steps.append(step)

    start = time.monotonic()
    try:
        fixes = fix(
            **arguments,
            select=args.select,
            ignore=args.ignore,
            inductor=args.inductor,
            seconds=args.seconds,
            cache=_cache_folder() if args.cache else None,
            progress=show_step,
        )
    except KeyboardInterrupt as interrupt:
        line.end()
        partial = getattr(interrupt, "partial", None)
        if partial is not None:
            _show(partial, args)
        raise
    finally:
        line.end()
    if args.profile:
        _print_profile(steps, time.monotonic() - start)
    if fixes.reused and not args.quiet:
        answers = f"{fixes.reused} answer{'' if fixes.reused == 1 else 's'}"
        print(
            f"fullgraph: {answers} of earlier runs taken from {_cache_folder()}; "
            "--no-cache runs everything again.",
            file=sys.stderr,
        )
    _show(fixes, args)
    if args.write:
        written = fixes.apply(unsafe=args.unsafe, force=args.force)
        for path in written:
            print(f"fullgraph: wrote {path}", file=sys.stderr)
        if not written:
            print("fullgraph: there is no edit to write.", file=sys.stderr)
    if args.diff and fixes.ended_by:
        print(f"fullgraph: {fixes.verdict}", file=sys.stderr)
    if fixes.before.error is not None:
        print(f"fullgraph: {fixes.before.error}", file=sys.stderr)
        return BAD_INPUT
    return 1 if args.diff and fixes.diff(unsafe=args.unsafe) else 0


def _print_profile(steps: Sequence[FixStep], end: float) -> None:
    """Print on stderr how long each kind of step took, and how often it came; longest first."""
    spent: dict[str, float] = defaultdict(float)
    counts = Counter[str]()
    for step, after in zip(steps, [*(one.seconds for one in steps[1:]), end], strict=True):
        kind = re.sub(r" FG\d+ at .*", "", step.what)
        spent[kind] += after - step.seconds
        counts[kind] += 1
    for kind, seconds in sorted(spent.items(), key=lambda pair: -pair[1]):
        print(f"{seconds:8.1f} s {counts[kind]:4} × {kind}", file=sys.stderr)


def _cache_folder() -> Path:
    """Return the folder for what earlier runs have found out."""
    if folder := os.environ.get("FULLGRAPH_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fullgraph"


def _show(fixes: Fixes, args: argparse.Namespace) -> None:
    """Print the fixes as JSON, as a diff or as a report."""
    from fullgraph.rewrites.fix import render, render_diff

    if args.json:
        print(json.dumps(fixes.to_dict(), indent=2))
    elif args.diff:
        diff = fixes.diff(unsafe=args.unsafe)
        shown = console(args)
        if shown.color_system is None:  # byte by byte, for `git apply`
            print(diff, end="")
        else:
            render_diff(diff, shown)
    elif args.quiet:
        print(fixes.verdict)
    else:
        render(fixes, console(args))
