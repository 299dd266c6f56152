"""Explain and fix the situations of `benchmarks/field`, and count what becomes one graph.

    python benchmarks/field.py [--only NAME…] [--held-out] [--verify] [--timeout 180] [--jobs 1]

Each situation runs in a process of its own. Answers are added to
benchmarks/results/field-<commit>.jsonl as they come: an interrupted run goes on where it stopped.
A whole run leaves its tables beside it. Situations that are held out, those of the newest drawing,
run only with `--held-out`, and then alone. `--verify` asks torch.compile alone, with neither
explain nor fix, whether each one breaks or recompiles; with `--held-out` it asks about those only.

Words of the tables: *found*, expected expressions that explain names; *no edit*, situations that
are one graph as they are and of which fix says so; *setting*, *edit*, *unsafe* and *boundary*, what
made the others whole; *stays*, the rest; *compiles*, graphs over all calls, before and after.
The exit code is 1 if a result changed, if something crashed, or if `--verify` finds a situation in
which nothing happens.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.field import SITUATIONS, Situation

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
WAYS = ("no edit", "setting", "edit", "unsafe", "boundary", "stays")
BOUNDARIES = ("compiler.disable", "allow_in_graph", "nonstrict_trace", "custom_op")


def count_compiles(program: Any, calls: Sequence[Any], **options: Any) -> tuple[list[int], str]:
    """Return the number of graphs after each call, and the error that ended the calls."""
    import torch

    graphs: list[int] = []

    def count(graph: Any, inputs: Any) -> Any:
        graphs.append(1)
        return graph.forward

    torch.compiler.reset()
    program, after = copy.deepcopy(program), []
    compiled = torch.compile(program, backend=count, **options)
    try:
        for inputs in copy.deepcopy(calls):
            compiled(*inputs)
            after.append(len(graphs))
    except Exception as error:
        return after, f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return after, ""


def verify(situation: Situation) -> dict[str, Any]:
    """Say whether torch.compile breaks or recompiles: explain and fix have no part in it."""
    import torch

    program, inputs, further = situation.build()
    calls = [inputs, *further]
    fresh = copy.deepcopy(program)
    for one in copy.deepcopy(calls):
        fresh(*one)
    told = torch._dynamo.explain(copy.deepcopy(program))(*copy.deepcopy(inputs))
    default, error = count_compiles(program, calls)
    _, whole = count_compiles(program, calls, fullgraph=True)
    breaks = told.graph_break_count > 0 or default[:1] != [1] or bool(whole)
    recompiles = default[-1:] > default[:1]
    return {
        "breaks": told.graph_break_count,
        "default": default,
        "error": error,
        "fullgraph": whole or "ok",
        "shown": not error and (breaks if situation.kind == "break" else recompiles),
    }


def examine(situation: Situation) -> dict[str, Any]:
    """Say what explain and fix make of one situation."""
    from fullgraph import fix

    program, inputs, further = situation.build()
    fixes = fix(program, inputs, calls=further, seconds=120)
    told = fixes.before
    places = [
        (position.file, line)
        for cause in told.causes
        for position in (cause.position, *cause.stack)
        for line in range(position.line, (position.end_line or position.line) + 1)
    ]
    guarded = " ".join(f"{entry.message} {' '.join(entry.guards)}" for entry in told.recompiles)
    missing = [
        text
        for text in situation.expects
        if not any((str(situation.file), line) in places for line in situation.lines_of(text))
        and text.removeprefix("self.") not in guarded
    ]
    accepted = [made for made in fixes.suggestions if made.accepted]
    calls = [inputs, *further]
    # Each use has a copy of its own: a program may count in globals, and copies have theirs.
    changed = [changes(program, fixes.patched(unsafe=unsafe), calls) for unsafe in (False, True)]
    patched = [fixes.patched(), fixes.patched(unsafe=True)]
    compiles = [count_compiles(one, calls)[0] for one in (program, *patched)]
    whole = [is_whole(fixes.before), is_whole(fixes.after), is_whole(fixes.after_unsafe)]
    return {
        "causes": [[c.expression, c.category, list(c.modes)] for c in told.causes],
        "missing": missing,
        "recompiles": [entry.message for entry in told.recompiles],
        "verdict": told.verdict,
        "said": fixes.verdict,
        "graphs": [e.default.graphs for e in (fixes.before, fixes.after, fixes.after_unsafe)],
        "whole": whole,
        "compiles": compiles,
        "rules": [made.rule for made in accepted],
        "diffs": [[made.rule, made.applicability.value, made.diff] for made in accepted],
        "failed": [
            [made.rule, made.proof.reason]
            for made in fixes.suggestions
            if made.proof.state.value == "failed"
        ],
        "unfixed": [[u.cause, u.category, u.reason] for u in fixes.unfixed],
        "changed": [text for text in changed if text],
        "fullgraph": fixes.whole
        and [fixes.whole.edits, fixes.whole.check.ok or fixes.whole.check.detail],
        "way": way_of(situation, fixes, whole, compiles),
    }


def is_whole(explanation: Any) -> bool:
    """Whether both modes give one graph."""
    return explanation.default.breaks == 0 and explanation.fullgraph.ok is not False


def way_of(situation: Situation, fixes: Any, whole: list[bool], compiles: list[list[int]]) -> str:
    """Say what made a situation whole, or took its recompiles away; one of `WAYS`."""
    captured = fixes.whole.edits if fixes.whole and fixes.whole.check.ok else ""
    ideas = [made for made in fixes.suggestions if not made.diff]
    settings = {made.cause for made in ideas if made.proof.state.value == "proved"}
    found = fixes.call_setting
    if situation.kind == "recompile":
        if found is not None and found.check.ok and not found.after:
            return "setting"
        before, safe, unsafe = (counts[-1] if counts else 0 for counts in compiles)
        good = [False, safe < before, unsafe < before]
    elif captured == "none":
        return "no edit"
    else:
        good = [False, whole[1] or captured == "safe", whole[2] or captured == "unsafe"]
    if not any(good[1:]):
        left = {unfixed.cause for unfixed in fixes.unfixed}
        works = found is not None and found.check.ok and is_whole(found.explanation)
        return "setting" if works or (left and left <= settings) else "stays"
    diff = fixes.diff(unsafe=not good[1])
    if any(name in diff for name in BOUNDARIES):
        return "boundary"
    return "edit" if good[1] else "unsafe"


def changes(program: Any, fixed: Any, calls: Sequence[Any]) -> str:
    """Say how `fixed` differs from `program` over the calls; "" if it does not."""
    from torch.testing import assert_close

    module = vars(sys.modules[program.__module__])
    numbers = {name: value for name, value in module.items() if isinstance(value, int)}
    both = (outcomes(one, calls, numbers) for one in (fixed, program))
    for ours, theirs in zip(*both, strict=True):
        try:
            if isinstance(theirs, str) or isinstance(ours, str):
                assert ours == theirs, f"{ours} instead of {theirs}"
            else:
                assert_close(ours, theirs, rtol=1e-3, atol=1e-4, equal_nan=True, check_dtype=False)
        except (AssertionError, TypeError, ValueError) as error:
            return str(error).strip().partition("\n")[0]
    return ""


def outcomes(
    program: Callable[..., Any], calls: Sequence[Any], numbers: dict[str, int]
) -> list[Any]:
    """Return the tensors of each call's output, or its exception as a text.

    `numbers` are the globals that a program may count in.
    """
    import numpy as np
    import torch

    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    vars(sys.modules[program.__module__]).update(numbers)
    program, found = copy.deepcopy(program), []
    for inputs in copy.deepcopy(calls):
        try:
            found.append([torch.as_tensor(leaf).detach() for leaf in leaves(program(*inputs))])
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def leaves(output: Any) -> Iterable[Any]:
    """Yield the tensors and numbers of an output, in order."""
    if isinstance(output, tuple | list):
        for item in output:
            yield from leaves(item)
    elif isinstance(output, dict):
        yield from leaves(list(output.values()))
    elif output is not None:
        yield output


def run_child(name: str, mode: str, timeout: float) -> dict[str, Any]:
    """Run one situation in a process of its own; a death or a hang is an answer with `crash`."""
    command = [sys.executable, __file__, "--child", mode, "--only", name]
    start = perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=environment, cwd=ROOT
        )
        answer = json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        answer = {"crash": f"no answer in {timeout:.0f} s"}
    except (IndexError, json.JSONDecodeError):
        answer = {"crash": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]}
    return {"crash": None, **answer, "seconds": round(perf_counter() - start, 1)}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table by kind and label, in markdown."""
    head = ("kind", "label", "cases", "found", *WAYS, "compiles", "seconds")
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * 2}{' ---: |' * (len(head) - 2)}"]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["kind"], row["label"]), []).append(row)
    for (kind, label), members in [*sorted(groups.items()), (("all", ""), list(rows))]:
        good = [row for row in members if not row["crash"]]
        ways = Counter(row["way"] for row in good)
        expected = sum(len(SITUATIONS[row["name"]].expects) for row in members)
        found = expected - sum(
            len(row.get("missing", SITUATIONS[row["name"]].expects)) for row in members
        )
        counts = [[c[-1] if c else 0 for c in row["compiles"]] for row in good]
        before, safe, unsafe = (
            (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0, 0)
        )
        cells = (
            *(len(members), f"{found}/{expected}"),
            *(ways[way] for way in WAYS),
            *(f"{before} → {safe}, {unsafe}", f"{sum(row['seconds'] for row in members):.0f}"),
        )
        lines.append(f"| {kind} | {label} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def cases_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return one line for each case, in markdown; graphs and compiles are before, safe, unsafe."""
    lines = [
        "| case | kind | label | found | way | graphs | compiles | rules |",
        "| --- | --- | --- | ---: | --- | --- | --- | --- |",
    ]
    for row in rows:
        expected = len(SITUATIONS[row["name"]].expects)
        cells = [row["name"], row["kind"], row["label"]]
        if row["crash"]:
            cells += [f"0/{expected}", row["crash"], "", "", ""]
        else:
            graphs = ", ".join(map(str, row["graphs"]))
            compiles = ", ".join(str(counts[-1]) if counts else "0" for counts in row["compiles"])
            found = f"{expected - len(row['missing'])}/{expected}"
            cells += [found, row["way"], graphs, compiles, " ".join(row["rules"])]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Run what was chosen; the exit code is what the module's docstring says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", choices=SITUATIONS)
    parser.add_argument("--held-out", action="store_true", help="run those, and no others")
    parser.add_argument("--verify", action="store_true", help="ask torch.compile alone")
    parser.add_argument("--timeout", type=float, default=180, metavar="S", help="for one situation")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="situations at a time")
    parser.add_argument("--child", choices=("verify", "examine"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        act = verify if options.child == "verify" else examine
        print(json.dumps(act(SITUATIONS[options.only[0]])))
        return 0
    chosen = [
        situation
        for name, situation in SITUATIONS.items()
        if (not options.only or name in options.only)
        and (situation.held_out or not options.held_out)
        and (options.verify or situation.held_out == options.held_out)
    ]
    if options.verify:
        return _verify_all(chosen, options.timeout, options.jobs)
    kind = "-held-out" if options.held_out else ""
    return _examine_all(chosen, kind, bool(options.only), options.timeout, options.jobs)


def _verify_all(chosen: Sequence[Situation], timeout: float, jobs: int) -> int:
    silent = []
    with ThreadPoolExecutor(jobs) as pool:
        asked = pool.map(lambda one: run_child(one.name, "verify", timeout), chosen)
        for situation, row in zip(chosen, asked, strict=True):
            shown = row.get("shown", False)
            silent += [] if shown else [situation.name]
            said = row["crash"] or f"{row['default']} {row['error']} fullgraph: {row['fullgraph']}"
            print(f"{'shown' if shown else 'NOTHING':8} {situation.name}: {said}", flush=True)
    print(f"{len(chosen) - len(silent)} of {len(chosen)} break or recompile", *silent)
    return 1 if silent else 0


def _examine_all(
    chosen: Sequence[Situation], kind: str, only: bool, timeout: float, jobs: int
) -> int:
    git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    path = RESULTS / f"field-{commit}{kind}.jsonl"
    rows: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        with suppress(json.JSONDecodeError):
            row = json.loads(line)
            if not row["crash"] and row["name"] in SITUATIONS:  # a crash is asked again
                one = SITUATIONS[row["name"]]
                rows[row["name"]] = row | {"kind": one.kind, "label": one.label}
    left = [situation for situation in chosen if situation.name not in rows]
    with path.open("a") as file, ThreadPoolExecutor(jobs) as pool:
        asked = {pool.submit(run_child, one.name, "examine", timeout): one for one in left}
        for future in as_completed(asked):
            one = asked[future]
            about = {"name": one.name, "kind": one.kind, "label": one.label}
            row = rows[one.name] = {**about, **future.result()}
            print(json.dumps(row, ensure_ascii=False), file=file, flush=True)
            print(f"{one.name}: {row['crash'] or row['way']}, {row['seconds']} s", flush=True)
    shown = [rows[situation.name] for situation in chosen]
    for row in shown:
        for text in row.get("missing", ()):
            print(f"{row['name']}: explain does not find {text}")
        for cause, _, reason in row.get("unfixed", ()):
            print(f"{row['name']}: {cause!r} stays: {reason}")
    report = f"{table(shown)}\n\n{cases_table(shown)}\n"
    print(report)
    if not only:
        path.with_suffix(".md").write_text(report)
    crashed = [row["name"] for row in shown if row["crash"]]
    changed = [row["name"] for row in shown if row.get("changed")]
    print("crashed:", *crashed, "changed:", *changed)
    return 1 if crashed or changed else 0


if __name__ == "__main__":
    sys.exit(main())
