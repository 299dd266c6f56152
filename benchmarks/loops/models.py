"""The backend `loops` on the models of the zoo, beside eager and aot_eager.

    python -m benchmarks.loops.models [--only PART] [--every 3] [--jobs 2] [--timeout 180] [--fresh]
    python -m benchmarks.loops.models --outside [--list] ...

Each model runs once without gradients and, if its output has any, once with its backward, each in
a process forked from one warmed server with its own cache of kernels. A row says how far outputs
and gradients are from eager's, in parts of the largest element of each tensor (at least 0.001);
how many nodes of the graphs outside the list of extern operators run in generated kernels, with the
share of them and of the bytes that they move, and how many are extern calls; or which operator was
refused. It has the error of aot_eager, and for both backends the shortest time of a call (CPU time
on one thread).

`--outside` asks which models spend more than half of the time of aot_eager outside extern
operators: the time of a call minus that of the extern nodes of the graphs that aot_eager runs. Of
those, and without `--list`, it measures what loops give: time and bytes moved. Bytes are the
operands and results of each kernel: of a node, in aot_eager and of extern calls, and of a fused
kernel what it reads from memory and writes to memory. The programs of `speed` take part.

Rows are added to benchmarks/results/loops-models-<torch version>.jsonl, or loops-outside-…, as they
come: an interrupted run resumes. Tables in Markdown stand at its end. The exit code is 1 if a model
is wrong by more than 0.001 or crashes.
"""

from __future__ import annotations

import argparse
import copy
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import version
from statistics import geometric_mean
from typing import Any

import numpy as np
import torch

from benchmarks.loops.speed import ENTRIES as PROGRAMS
from benchmarks.loops.speed import MODES, RESULTS
from benchmarks.loops.traffic import (
    CountedGraph,
    TimedGraph,
    bytes_of_nodes,
    compile_counted,
    computing_nodes,
    count_calls,
    facts,
    name_of,
    time_nodes,
)
from benchmarks.models import ENTRIES
from benchmarks.models.entry import Built
from benchmarks.models.step import Step, distance, shortest_seconds
from benchmarks.server import Server
from benchmarks.zoo_table import Row
from fullgraph.compiler.errors import UnsupportedOperator
from fullgraph.compiler.lowering.prims import extern_reason

LIMIT, MOSTLY = 1e-3, 0.5
STEADY_SECONDS = 0.5


def compare(built: Built, *, mode: str) -> Row:
    """Run a model in eager, and compiled by aot_eager and by loops; return how far apart."""
    eager = Step(copy.deepcopy(built), mode)
    expected = run_seeded(eager, eager.model)
    if mode == "training" and not eager.has_gradient:
        return {"skipped": "no gradient"}
    other = _measure(Step(copy.deepcopy(built), mode), "aot_eager", expected)
    step, graphs = Step(built, mode), list[CountedGraph]()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FULLGRAPH_CACHE_DIR"] = folder
        try:
            ours = _measure(step, partial(compile_counted, graphs), expected, graphs)
        except Exception as error:
            refusal = _find_refusal(error)
            if refusal is None:
                raise
            text = str(refusal).partition(" (node")[0]
            ours = {"refused": text.removeprefix("backend `loops`: ")}
    return {**ours, "aot_eager": other, **facts(graphs)}


def find_extern_time(built: Built, *, mode: str) -> Row:
    """Return the time of a call by aot_eager, that of its extern nodes, and the bytes it moves."""
    step, graphs = Step(copy.deepcopy(built), mode), list[TimedGraph]()
    _measure(step, partial(time_nodes, graphs), None, graphs)
    if mode == "training" and not step.has_gradient:
        return {"skipped": "no gradient"}
    steady = _measure(Step(built, mode), "aot_eager")["steady"]
    times, sizes = Counter[str](), Counter[str]()
    for graph in graphs:
        for node, seconds in graph.seconds.items():
            name = name_of(node) if extern_reason(node) is None else "extern"
            times[name] += round(1e9 * seconds) * graph.calls
        for what, size in bytes_of_nodes(computing_nodes(graph.module)).items():
            sizes[what] += size * graph.calls
    extern = times.pop("extern", 0)
    return {
        "steady": steady,
        "outside": 1 - extern / 1e9 / steady,
        "bytes": sizes,
        "longest ns": dict(times.most_common(3)),
    }


def run_seeded(step: Step, function: Callable[..., Any]) -> list[torch.Tensor]:
    """Return copies of outputs and gradients of one call."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    outputs = step.run(function)
    return [one.detach().clone() for one in (*outputs, *step.gradients)]


def _measure(
    step: Step,
    backend: Any,
    expected: list[torch.Tensor] | None = None,
    graphs: Sequence[CountedGraph] = (),
) -> Row:
    """Compile a model and run it; return its error and the shortest time of a call."""
    torch.compiler.reset()
    compiled = torch.compile(step.model, backend=backend)
    actual = run_seeded(step, compiled)
    pairs = () if expected is None else zip(expected, actual, strict=True)
    error = max((distance(one, other) for one, other in pairs), default=0.0)
    steady = shortest_seconds(lambda: step.run(compiled), STEADY_SECONDS)
    count_calls(graphs, lambda: step.run(compiled))
    return {"error": error, "steady": steady}


def _find_refusal(error: BaseException | None) -> BaseException | None:
    """Return the refusal of an operator among an error and its causes."""
    while error is not None and not isinstance(error, UnsupportedOperator):
        error = getattr(error, "inner_exception", None) or error.__cause__ or error.__context__
    return error


def _said(row: Row) -> str:
    """One progress line of a run."""
    return str({name: row[name] for name in row if name not in ("traceback", "seconds")})


def model_table(rows: Iterable[Row]) -> str:
    """Return a line for each run, in Markdown."""
    lines = [
        "| run | error | of aot_eager | nodes | extern | kernels | ms | aot_eager ms |",
        "| --- " + "| ---: " * 7 + "|",
    ]
    for row in rows:
        cells = [row["key"], row.get("skipped") or row.get("refused") or row.get("crash")]
        if "error" in row:
            other = row["aot_eager"]
            cells[1:] = [f"{row['error']:.0e}", f"{other['error']:.0e}"]
            cells += [row["nodes"].get("generated", 0), row["externs"], row["kernels"]]
            cells += [f"{1e3 * one['steady']:.2f}" for one in (row, other)]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def summary(rows: list[Row]) -> str:
    """Return what the rows say together."""
    ran = [row for row in rows if "error" in row]
    right = [row for row in ran if row["error"] <= LIMIT]
    refused = [row for row in rows if "refused" in row]
    crashed = [row for row in rows if row.get("crash")]
    models = {row["key"].rpartition(", ")[0] for row in right}
    told = (
        f"{len(right)} of {len(ran) + len(refused) + len(crashed)} runs agree with eager "
        f"({len(models)} models), {len(ran) - len(right)} differ, {len(refused)} are refused, "
        f"{len(crashed)} crash; {sum(row['externs'] for row in ran)} extern calls. Outside them "
    )
    for what in ("nodes", "bytes"):
        total = Counter[str]()
        for row in [*ran, *refused]:
            total.update(row[what])
        share = total["generated"] / max(total["generated"] + total["aten"], 1)
        told += f"{share:.2%} of {what} run in generated kernels ({dict(total)}). "
    times = [row["steady"] / row["aot_eager"]["steady"] for row in ran]
    if times:
        told += f"Time over that of aot_eager, geometric mean: {geometric_mean(times):.3f}."
    return told


def outside_table(listed: list[Row], measured: dict[str, Row]) -> str:
    """Return a line for each listed run: the time of aot_eager, and what loops give."""
    lines = [
        "| run | aot_eager ms | outside externs | longest outside, ms | loops ms | times faster "
        "| MB | of aot_eager's | of those outside externs |",
        "| --- | ---: | ---: | --- " + "| ---: " * 5 + "|",
    ]
    ratios = []
    for row in listed:
        longest = ", ".join(f"{name} {ns / 1e6:.2f}" for name, ns in row["longest ns"].items())
        cells = [row["key"], f"{1e3 * row['steady']:.2f}", f"{row['outside']:.0%}", longest]
        ours = measured.get(row["key"], {})
        if "error" in ours:
            faster = ours["aot_eager"]["steady"] / ours["steady"]
            moved, before = (sum(one.values()) for one in (ours["moved"], row["bytes"]))
            others = ours["moved"].get("others", 0) / max(row["bytes"].get("others", 0), 1)
            ratios.append((faster, moved / max(before, 1)))
            cells += [f"{1e3 * ours['steady']:.2f}", f"{faster:.2f}", f"{moved / 1e6:.2f}"]
            cells += [f"{moved / max(before, 1):.2f}", f"{others:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    if ratios:
        faster, moved = (geometric_mean(column) for column in zip(*ratios, strict=True))
        lines.append(
            f"\n{len(ratios)} runs, geometric means: {faster:.2f} times faster than aot_eager "
            f"({sum(one >= 1.3 for one, _ in ratios)} runs at least 1.3 times), {moved:.2f} of "
            f"its bytes ({sum(one <= 0.5 for _, one in ratios)} runs at most half)."
        )
    return "\n".join(lines)


def main() -> int:
    """Run them all; the exit code is what the module's docstring says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="PART", help="models whose key holds PART")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th model only")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="models at a time")
    parser.add_argument("--timeout", type=float, default=180, metavar="S", help="for one run")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--outside", action="store_true", help="see above")
    parser.add_argument("--list", action="store_true", help="with --outside: list them only")
    options = parser.parse_args()
    keys = [key for key in ENTRIES if options.only in key][:: options.every]
    chosen = {f"{key}, {mode}": key for key in keys for mode in MODES}
    chosen |= {key: key for key in PROGRAMS if options.only in key}
    if not options.outside:
        rows = _ask("models", compare, chosen, options)
        print(model_table(rows.values()), summary([*rows.values()]), sep="\n\n")
        wrong = [r for r in rows.values() if r.get("crash") or r.get("error", 0) > LIMIT]
        return 1 if wrong else 0
    listed = _ask("outside", find_extern_time, chosen, options)
    mostly = {key: row for key, row in listed.items() if row.get("outside", 0) > MOSTLY}
    rows = {}
    if not options.list:
        rows = _ask("models", compare, {key: chosen[key] for key in mostly}, options)
    known = [row for row in listed.values() if "outside" in row]
    print(f"{len(mostly)} of {len(known)} runs are mostly outside extern operators\n")
    print(outside_table(sorted(mostly.values(), key=lambda row: -row["outside"]), rows))
    return 0


def _ask(
    name: str,
    side: Callable[..., Row],
    chosen: dict[str, str],
    options: argparse.Namespace,
) -> dict[str, Row]:
    """Return the rows of the chosen runs; those not in the journal are run first."""
    path = RESULTS / f"loops-{name}-{version('torch')}.jsonl"
    if options.fresh:
        path.unlink(missing_ok=True)
    server = Server(options.timeout)
    questions = {
        run: partial(server.ask, partial(side, mode=run.rpartition(", ")[2]), key)
        for run, key in chosen.items()
    }
    rows = server.answer_all(path, questions, _said, options.jobs)
    return {run: rows[run] for run in chosen}


if __name__ == "__main__":
    sys.exit(main())
