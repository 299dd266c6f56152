"""Explain every model of the zoo, side by side with `torch._dynamo.explain`.

    python benchmarks/zoo.py [--only LIBRARY] [--limit N] [--jobs 2] [--timeout 180] [--fresh]
    python benchmarks/zoo.py --check     run every model in eager instead, to see that it runs

(`python -m benchmarks.zoo` is the same.) Each model is explained twice, once by each side, in two
fresh processes forked from one warmed server; who goes first alternates from model to model.
Answers are added to benchmarks/results/zoo-<torch version>.jsonl as they come: an interrupted run
goes on where it stopped (models on which fullgraph crashed are asked again), and `--fresh` starts
over. At its end stand a table by library and one
by category, plain on the screen and in markdown beside the results. The exit code is 1 if
fullgraph crashed on any model, or hung, and 2 if no model matches.

Words of the table: *clean* models have no cause and no crash; *causes* are those that the
default mode meets; *explain misses* are those causes whose place no reason of explain's names;
*no reason at all* are models with causes for which explain gives none; *hidden causes* lie behind
another; *reported* are crashes of torch that fullgraph tells as such; *time ratio* is the
geometric mean of fullgraph's time (both modes, isolation and unmasking included) by explain's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import trial, zoo_table
from benchmarks.models import ENTRIES
from benchmarks.server import Server
from benchmarks.zoo_table import Row

Ask = Callable[[Server, int, str], Row]
RESULTS = Path(__file__).parent / "results"


def explain(server: Server, number: int, key: str) -> Row:
    """What both say of a model, one line of the results; torch goes first on even numbers."""
    sides = (trial.TORCH, trial.FULLGRAPH)[:: 1 if number % 2 == 0 else -1]
    said = {side: server.ask(trial.SIDES[side], key) for side in sides}
    return {"key": key, "library": ENTRIES[key].library, "first": sides[0], **said}


def check(server: Server, number: int, key: str) -> Row:
    """Whether a model runs in eager."""
    return {"key": key, trial.EAGER: server.ask(trial.SIDES[trial.EAGER], key)}


def _said(row: Row) -> str:
    """One progress line of what was said about a model."""
    if trial.EAGER in row:
        eager = row[trial.EAGER]
        return f"{row['key']}: {eager['crash'] or 'runs'}"
    theirs, ours = row[trial.TORCH], row[trial.FULLGRAPH]
    explain_says = theirs["crash"] or (
        f"{theirs['breaks']} breaks, {len(theirs['reasons'])} reasons, {theirs['seconds']:.1f} s"
    )
    we_say = f"CRASH {ours['crash']}" if ours["crash"] else f"{ours['verdict']}"
    took = "" if ours["seconds"] is None else f" · {ours['seconds']:.1f} s"
    return f"{row['key']}: {we_say}{took} (explain: {explain_says})"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="LIBRARY", help="a library, or a part of a model's key")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N of them")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="trials at a time")
    parser.add_argument("--timeout", type=float, default=180, metavar="S", help="for one trial")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--check", action="store_true", help="only run the models in eager")
    return parser.parse_args()


def _questions(server: Server, ask: Ask, keys: Sequence[str]) -> dict[str, Callable[[], Row]]:
    return {key: partial(ask, server, number, key) for number, key in enumerate(keys)}


def _check(server: Server, keys: Sequence[str], jobs: int) -> int:
    rows = list(server.ask_all(_questions(server, check, keys), {}, _said, jobs))
    failed = [row["key"] for row in rows if row[trial.EAGER]["crash"]]
    print(f"{len(rows) - len(failed)} of {len(rows)} models run in eager", *failed, sep="\n  ")
    return 1 if failed else 0


def _explain(server: Server, keys: Sequence[str], jobs: int, path: Path) -> int:
    questions = _questions(server, explain, keys)
    rows = server.answer_all(path, questions, _said, jobs, zoo_table.crashed)
    chosen = [rows[key] for key in keys]
    tables = (zoo_table.by_library(chosen), zoo_table.by_category(chosen))
    print(*("\n" + table.plain() for table in tables), sep="\n")
    path.with_suffix(".md").write_text("\n\n".join(table.markdown() for table in tables) + "\n")
    crashes = [row for row in chosen if zoo_table.crashed(row)]
    for row in crashes:
        print(f"fullgraph crashed on {row['key']}: {row[trial.FULLGRAPH]['crash']}")
    return 1 if crashes else 0


def main() -> int:
    """Run the zoo; the exit code is what the module's docstring says."""
    options = _arguments()
    keys = [key for key in ENTRIES if not options.only or options.only in key]
    keys = keys[: options.limit]
    if not keys:
        print(f"no model's key holds {options.only!r}", file=sys.stderr)
        return 2
    server = Server(options.timeout)
    try:
        if options.check:
            return _check(server, keys, options.jobs)
        path = RESULTS / f"zoo-{version('torch')}.jsonl"
        path.parent.mkdir(exist_ok=True)
        if options.fresh:
            path.unlink(missing_ok=True)
        return _explain(server, keys, options.jobs, path)
    except KeyboardInterrupt:
        print("interrupted; run again to go on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
