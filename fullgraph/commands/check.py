"""`fullgraph check`: graph breaks and recompiles in source, with nothing run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fullgraph.commands.arguments import BAD_INPUT, Commands, add_color, add_command, add_torch
from fullgraph.compiler.errors import FullgraphError

if TYPE_CHECKING:
    from fullgraph.rewrites.check import CheckResult
    from fullgraph.rewrites.review import Review


def add(commands: Commands) -> None:
    """Declare the command `fullgraph check`."""
    parser = add_command(
        commands,
        "check",
        "graph breaks and recompiles in source files, with nothing run",
        "src",
        "model.py --strict --torch 2.13",
        "src --select FGB1 --ignore FGB201",
        "src --output text --output sarif:fullgraph.sarif",
        "src --since main",
        "src --baseline fullgraph.json --update-baseline",
    )
    parser.set_defaults(command=_run_check)
    parser.add_argument(
        "paths", nargs="*", default=["."], metavar="PATH", help="files and folders; default: ."
    )
    add_torch(parser)
    parser.add_argument(
        "--python", metavar="3.12", help="version of Python to check for; default: the running one"
    )
    parser.add_argument(
        "--strict", action="store_true", help="also show findings that are likely, not proved"
    )
    parser.add_argument(
        "--select",
        action="append",
        default=[],
        metavar="FGB1",
        help="only codes with this prefix, as in --select FGB1; repeatable",
    )
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="FGB1",
        help="skip codes with this prefix, as in --ignore FGB201; repeatable",
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="skip paths that match this pattern, as in --exclude 'tests/*'; repeatable",
    )
    parser.add_argument(
        "--entry",
        action="append",
        default=[],
        metavar="PKG.MODULE:FUNCTION",
        help="a function that runs compiled though the source does not show it, as in "
        "--entry train.loop:step; repeatable",
    )
    parser.add_argument(
        "--facts",
        metavar="FILE",
        help="what `fullgraph explain --facts FILE` wrote: what was a tensor in that run",
    )
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="number of processes; default: one for each CPU"
    )
    parser.add_argument(
        "--no-cache",
        action="store_true",
        help="check every file anew, and store nothing in .fullgraph_cache of the project",
    )
    _add_edits(parser)
    _add_review(parser)
    add_color(parser)


def _add_edits(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments for showing or writing edits."""
    parser.add_argument(
        "--diff", action="store_true", help="print the edits as one diff; exit 1 if there are any"
    )
    parser.add_argument("--fix", action="store_true", help="write the safe edits into the files")
    parser.add_argument(
        "--unsafe-fixes", action="store_true", help="with --diff or --fix, the unsafe edits too"
    )


def _add_review(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that choose which findings are written, in which format and where."""
    parser.add_argument(
        "--output",
        action="append",
        default=[],
        metavar="FORMAT[:FILE]",
        help="text, json, sarif, github, rdjson or gitlab, to a file or to stdout, as in "
        "--output sarif:fullgraph.sarif; repeatable; default: text",
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON instead of the report: --output json"
    )
    parser.add_argument(
        "--since",
        metavar="REV",
        help="only findings on lines that changed since a revision or since this branch left it, "
        "as in --since main",
    )
    parser.add_argument(
        "--baseline", metavar="FILE", help="only findings that this file does not hold"
    )
    parser.add_argument(
        "--update-baseline",
        action="store_true",
        help="write the findings to the file of --baseline, and exit with 0",
    )


def _run_check(args: argparse.Namespace) -> int:
    """Run `fullgraph check`."""
    from fullgraph.rewrites.check import cache_folder, check, usable_cpus
    from fullgraph.rewrites.review import parse_outputs, review_of, write_outputs

    outputs = parse_outputs([*args.output, *(["json"] if args.json else [])])
    _check_flags(args)
    run = partial(
        check,
        args.paths or ["."],
        torch=args.torch,
        python=args.python,
        strict=args.strict,
        select=args.select,
        ignore=args.ignore,
        exclude=args.exclude,
        entries=args.entry,
        facts=args.facts,
        jobs=usable_cpus() if args.jobs is None else args.jobs,
        cache=None if args.no_cache else cache_folder(_first_folder(args)),
    )
    if args.fix:
        _write_edits(run, args)
    result = run()
    for one in result.unreadable:
        print(f"fullgraph: {one}", file=sys.stderr)
    if result.exit_code == BAD_INPUT:
        raise FullgraphError("No file could be read.")
    review = review_of(result, _first_folder(args))
    if args.update_baseline:
        return _update_baseline(review, args.baseline)
    review = _choose(review, args)
    if args.diff:
        return _print_diff(review, unsafe=args.unsafe_fixes)
    write_outputs(review, outputs, args.color)
    return review.result.exit_code


def _write_edits(run: Callable[[], CheckResult], args: argparse.Namespace) -> None:
    """Write the edits for the chosen findings into the files, and print their number.

    `run` checks the files again after each write.
    """
    from fullgraph.rewrites.check import fix_until_stable
    from fullgraph.rewrites.review import review_of

    def chosen() -> CheckResult:
        """Check the files; return the findings that `--baseline` and `--since` do not exclude."""
        return _choose(review_of(run(), _first_folder(args)), args).result

    count = fix_until_stable(chosen, unsafe=args.unsafe_fixes)
    print(f"fullgraph: applied {count} edit{'s' * (count != 1)}.", file=sys.stderr)


def _print_diff(review: Review, *, unsafe: bool) -> int:
    """Print the edits as a diff; return 1 if there are any."""
    from fullgraph.rewrites.check import fixed_files

    diff = fixed_files(review.result, unsafe=unsafe).diff
    print(diff, end="")
    return 1 if diff else 0


def _check_flags(args: argparse.Namespace) -> None:
    """Raise FullgraphError for flags that contradict or need each other, or a wrong `--jobs`."""
    if args.jobs is not None and args.jobs < 1:
        raise FullgraphError("--jobs is the number of processes: give 1 or more.")
    if args.update_baseline and not args.baseline:
        raise FullgraphError("--update-baseline needs --baseline FILE to write to.")
    if args.fix and (args.diff or args.update_baseline):
        raise FullgraphError("--fix goes with neither --diff nor --update-baseline.")
    if args.unsafe_fixes and not (args.fix or args.diff):
        raise FullgraphError("--unsafe-fixes needs --fix or --diff.")
    if args.update_baseline and args.since:
        raise FullgraphError("A baseline holds all findings: give it without --since.")


def _first_folder(args: argparse.Namespace) -> Path:
    """Return the folder of the first path on the command line, or "." if there is none.

    The repository is found from this folder.
    """
    path = Path(args.paths[0] if args.paths else ".")
    return path if path.is_dir() else path.parent


def _update_baseline(review: Review, path: str) -> int:
    """Write the findings to the baseline file `path` and print that; return the exit code, 0."""
    from fullgraph.rewrites.review import write_baseline

    write_baseline(path, review.remarks)
    count = len(review.remarks)
    print(f"fullgraph: wrote {count} finding{'s' * (count != 1)} to {path}", file=sys.stderr)
    return 0


def _choose(review: Review, args: argparse.Namespace) -> Review:
    """Return the review without the findings that `--baseline` or `--since` excludes."""
    from fullgraph.rewrites.review import changed_since, read_baseline

    if args.baseline:
        known = read_baseline(args.baseline)
        review = review.keep(lambda one: one.fingerprint not in known)
    if args.since:
        changed = changed_since(args.since, review.root)
        review = review.keep(changed.holds)
    return review
