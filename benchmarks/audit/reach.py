"""Of the sides of conditions that random inputs leave out, how many does a proof reach?

    python -m benchmarks.audit.reach [--only PART]… [--jobs 1]

Asked are the conditions that tensors decide in the programs of the audit, the situations of
`benchmarks/field` and the modules of `benchmarks/fix_models`. Random inputs are the given ones and
16 drawings of their kind. A side is *reached* by one of the variants that a proof tries or by its
search; nothing is forced. Those that a witness of the audit takes are counted apart: of them it is
known that they can be taken. Answers are added to benchmarks/results/reach-<commit>.jsonl as they
come: an interrupted run goes on where it stopped; a whole one leaves reach-<commit>.md, which names
each side that is missed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import inspect
import io
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import torch

from benchmarks import check_truth
from benchmarks.audit.outcomes import build, load
from benchmarks.audit.run import PROGRAMS, RESULTS
from benchmarks.nightly import git
from benchmarks.server import Server

DRAWINGS, SECONDS, LIMIT = 16, 60.0, 1200.0
"""Random inputs of a program, seconds that the search for one condition takes at most, and seconds
for a program."""
Calls = Sequence[tuple[Any, ...]]


def conditions(path: str) -> Iterator[tuple[Any, str]]:
    """Yield the place and the text of each condition in a file."""
    from fullgraph.compiler.sources import read_source

    source = read_source(path)
    assert source is not None
    for node in ast.walk(source.tree):
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
            yield source.position(node.test), ast.unparse(node.test)


def draw(seed: int, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return inputs of the same kind: normal numbers, or whole ones in the range of the given."""
    torch.manual_seed(seed)

    def redraw(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.numel() == 0 or leaf.layout != torch.strided:
            return leaf
        if leaf.is_floating_point():
            return torch.randn_like(leaf).requires_grad_(leaf.requires_grad)
        if leaf.is_complex():
            return torch.randn_like(leaf)
        low, high = int(leaf.min()), int(leaf.max())
        return torch.randint(low, max(high, low + (leaf.dtype is torch.bool)) + 1, leaf.shape).to(
            leaf.dtype
        )

    return torch.utils._pytree.tree_map(redraw, copy.deepcopy(inputs))


def taken(program: Any, tests: Sequence[Any], calls: Iterable[tuple[Any, ...]]) -> list[set[Any]]:
    """Return the sides that each condition took in eager where a tensor had decided it."""
    from fullgraph.compiler.sources import edit_functions
    from fullgraph.rewrites.proof.conditions import record_conditions
    from fullgraph.rewrites.proof.margins import Margins

    edits, tapes = record_conditions(tests)
    sides: list[set[Any]] = [set() for _ in tests]
    with edit_functions(edits):
        for number, inputs in enumerate(calls):
            torch.manual_seed(number)
            called, margins, text = program, Margins(), io.StringIO()
            with contextlib.suppress(TypeError):  # a lock has no copy
                called = copy.deepcopy(program)
            for tape in tapes:
                tape.decisions.clear()
                tape.margins = margins
            with (
                contextlib.redirect_stdout(text),
                contextlib.redirect_stderr(text),
                contextlib.suppress(Exception),
                margins,
            ):
                called(*inputs)
            for side, tape in zip(sides, tapes, strict=True):
                side |= {one.value for one in tape.decisions if one.is_of_data}
    return sides


def ask(make: Callable[[], tuple[Any, tuple[Any, ...], Calls]], emit: object = None) -> Any:
    """Say which sides random inputs leave out, and how the search does on each."""
    from fullgraph.compiler.program import parse_program
    from fullgraph.rewrites.proof.prove import SPECIAL
    from fullgraph.rewrites.proof.recorded_runs import Explorer

    torch.manual_seed(0)
    program, inputs, witnesses = make()
    kind = type(program) if isinstance(program, torch.nn.Module) else program
    pairs = list(conditions(str(inspect.getsourcefile(kind))))
    tests = [test for test, _ in pairs]
    drawings = [inputs, *(draw(seed, inputs) for seed in range(DRAWINGS))]
    random, by_witness = taken(program, tests, drawings), taken(program, tests, witnesses)
    found = []
    for (test, text), known, shown in zip(pairs, random, by_witness, strict=True):
        asked = {True, False} - known if known else shown
        if not asked:
            continue
        special = any(word in text for word in SPECIAL)
        explorer = Explorer(parse_program(program, inputs), [test], {}, special, False)
        reached = explorer.explore(monotonic() + SECONDS).values_of(0)
        found += [
            {"condition": text, "side": side, "reached": side in reached, "witness": side in shown}
            for side in sorted(asked)
        ]
    return {"sides": found, "crash": None}


def _audited(path: Path) -> Any:
    module = load(path.read_text(), Path(tempfile.mkdtemp()))
    return *build(module), module.witnesses()


def _named(name: str) -> Any:
    program, inputs, _ = check_truth.build(name)
    return program, inputs, []


def questions() -> dict[str, Callable[[], Any]]:
    """Return what makes each program, by its name."""
    from benchmarks.field import SITUATIONS
    from benchmarks.fix_models import ENTRIES

    return {
        **{f"audit/{path.stem}": partial(_audited, path) for path in sorted(PROGRAMS.glob("*.py"))},
        **{f"field/{name}": partial(_named, f"field:{name}") for name in SITUATIONS},
        **{f"fix zoo/{name}": partial(_named, f"fix_models:{name}") for name in ENTRIES},
    }


def table(commit: str, rows: Sequence[dict[str, Any]]) -> str:
    """Return the text of the table."""
    lines = [f"# Sides reached on {commit}", "", "| corpus | left out | reached | share |"]
    lines.append("| --- | --- | --- | --- |")
    corpora = {row["key"].partition("/")[0] for row in rows}
    for corpus in [*sorted(corpora), "taken by witnesses"]:
        sides = [
            one
            for row in rows
            for one in row.get("sides", ())
            if row["key"].startswith(f"{corpus}/") or (corpus not in corpora and one["witness"])
        ]
        count = sum(one["reached"] for one in sides)
        share = f"{count / len(sides):.0%}" if sides else "–"
        lines.append(f"| {corpus} | {len(sides)} | {count} | {share} |")
    lines += ["", "Missed:", ""]
    for row in sorted(rows, key=lambda row: row["key"]):
        lines += [f"- {row['key']}: {row['crash']}"] if row["crash"] else []
        for one in row.get("sides", ()):
            if not one["reached"]:
                mark = ", which a witness takes" if one["witness"] else ""
                lines.append(f"- {row['key']}: `{one['condition']}` {one['side']}{mark}")
    return "\n".join([*lines, ""])


def _said(row: dict[str, Any]) -> str:
    sides = row.get("sides", ())
    counts = f"{sum(one['reached'] for one in sides)} of {len(sides)}"
    return f"{row['key']}: {row['crash'] or counts}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="PART", help="a piece of CORPUS/NAME")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    commit = git("rev-parse", "--short", "HEAD").strip()
    journal = RESULTS / f"reach-{commit}.jsonl"
    chosen = {
        key: make
        for key, make in questions().items()
        if any(part in key for part in options.only or [""])
    }
    if not chosen:
        print(f"no program of {', '.join(options.only)}", file=sys.stderr)
        return 2
    server = Server(LIMIT, warm="benchmarks.audit.outcomes")
    asked = {key: partial(server.run, partial(ask, make)) for key, make in chosen.items()}
    rows = server.answer_all(journal, asked, _said, options.jobs)
    text = table(commit, [rows[key] for key in chosen])
    if not options.only:
        (RESULTS / f"reach-{commit}.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
