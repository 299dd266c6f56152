"""The backend `loops` on the models of the zoo: outputs and gradients beside eager's.

    python -m benchmarks.loops.models [--only PART] [--every 3] [--jobs 2] [--timeout 120] [--fresh]

Each model runs once without gradients and, if its output has any, once with its backward, each in
a process forked from one warmed server with its own cache of kernels. A row says how far outputs
and gradients are from eager's, in parts of the largest element of each tensor (at least 0.001);
how many nodes of the graphs run in generated kernels, and how many are extern calls; or which
operator was refused. Rows are added to benchmarks/results/loops-models-<torch version>.jsonl as
they come: an interrupted run resumes. The exit code is 1 if a model is wrong by more than 0.001 or
crashes.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.models import ENTRIES
from benchmarks.models.entry import Built
from benchmarks.server import Server, read_rows
from benchmarks.zoo_table import Row

RESULTS = Path(__file__).parents[1] / "results"
LIMIT = 1e-3
MODES = ("inference", "training")


def compare(built: Built, *, mode: str) -> dict[str, Any]:
    """Run a model in eager and compiled by loops; return how far apart they are."""
    import fullgraph.compiler.lowering.backend  # noqa: F401  # registers the backend
    from fullgraph.compiler.errors import UnsupportedOperator

    programs: list[Any] = []
    model, args, kwargs = built
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FULLGRAPH_CACHE_DIR"] = folder
        expected = _run(copy.deepcopy(model), (), args, kwargs, mode)
        if mode == "training" and not expected["gradients"]:
            return {"skipped": "no gradient"}
        try:
            actual = _run(model, (programs,), args, kwargs, mode)
        except Exception as error:
            refusal = _find(error, UnsupportedOperator)
            if refusal is None:
                raise
            text = str(refusal).partition(" (node")[0]
            return {"refused": text.removeprefix("backend `loops`: ")}
    nodes = {
        (number, origin)
        for number, one in enumerate(programs)
        for step in one.plan.graph.steps
        for origin in getattr(step, "origins", ())
    }
    pairs = [
        pair
        for part in ("outputs", "gradients")
        for pair in zip(expected[part], actual[part], strict=True)
    ]
    return {
        "error": max((_distance(one, other) for one, other in pairs), default=0.0),
        "graphs": len(programs),
        "generated": len(nodes),
        "externs": sum(len(one.externs) for one in programs),
        "kernels": sum(one.kernels for one in programs),
    }


def _find(error: BaseException | None, kind: type[Exception]) -> BaseException | None:
    """Return the exception of a kind among an error and its causes."""
    while error is not None and not isinstance(error, kind):
        error = getattr(error, "inner_exception", None) or error.__cause__ or error.__context__
    return error


def _run(
    model: Any, programs: tuple[list[Any], ...], args: Any, kwargs: Any, mode: str
) -> dict[str, list[torch.Tensor]]:
    """Return outputs and gradients; compiled if there is a list for programs."""
    run = model
    if programs:
        options: Any = {"on_program": programs[0].append}
        run = torch.compile(model, backend="loops", options=options)
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    args, kwargs = copy.deepcopy((args, kwargs))
    if mode == "inference":
        with torch.no_grad():
            return {"outputs": [*_tensors(run(*args, **kwargs))], "gradients": []}
    outputs = [*_tensors(run(*args, **kwargs))]
    learning = [one for one in outputs if one.requires_grad and one.is_floating_point()]
    parameters = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
    leaves = [*parameters, *(one for one in _tensors((args, kwargs)) if one.requires_grad)]
    if learning and leaves:
        torch.stack([(one * one).mean() for one in learning if one.numel()]).sum().backward()
    gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
    return {"outputs": [one.detach() for one in outputs], "gradients": gradients}


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif hasattr(value, "values"):
        yield from _tensors(tuple(value.values()))


def _distance(expected: torch.Tensor, actual: torch.Tensor) -> float:
    """Return the largest difference in parts of the largest element."""
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return float("inf")
    if expected.layout != torch.strided or not expected.numel():
        return 0.0
    one, other = expected.to(torch.float64), actual.to(torch.float64)
    if not torch.equal(one.isnan(), other.isnan()):
        return float("inf")
    scale = one.nan_to_num().abs().max().clamp(min=1e-3)
    return float(((one - other).nan_to_num().abs().max()) / scale)


def _said(row: Row) -> str:
    """One progress line of a run."""
    return str({name: row[name] for name in row if name not in ("traceback", "seconds")})


def _summary(rows: list[dict[str, Any]]) -> str:
    """Return what the rows say together."""
    ran = [row for row in rows if "error" in row]
    right = [row for row in ran if row["error"] <= LIMIT]
    refused = [row for row in rows if "refused" in row]
    crashed = [row for row in rows if row.get("crash")]
    generated, externs = (sum(row[name] for row in ran) for name in ("generated", "externs"))
    models = {row["key"].partition(", ")[0] for row in right}
    return (
        f"{len(right)} of {len(ran) + len(refused) + len(crashed)} runs agree with eager "
        f"({len(models)} models), {len(ran) - len(right)} differ, {len(refused)} are refused, "
        f"{len(crashed)} crash; {generated} nodes in generated kernels, {externs} extern calls"
    )


def main() -> int:
    """Run them all; the exit code is what the module's docstring says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="PART", help="models whose key holds PART")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th model only")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="models at a time")
    parser.add_argument("--timeout", type=float, default=120, metavar="S", help="for one run")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    options = parser.parse_args()
    path = RESULTS / f"loops-models-{version('torch')}.jsonl"
    path.parent.mkdir(exist_ok=True)
    if options.fresh:
        path.unlink(missing_ok=True)
    rows = {key: row for key, row in read_rows(path).items() if not row["crash"]}  # asked again
    chosen = [key for key in ENTRIES if options.only in key][:: options.every]
    server = Server(options.timeout)
    questions = {
        f"{key}, {mode}": partial(server.ask, partial(compare, mode=mode), key)
        for key in chosen
        for mode in MODES
    }
    with path.open("a") as file:
        for row in server.ask_all(questions, rows, _said, options.jobs):
            rows[row["key"]] = row
            print(json.dumps(row), file=file, flush=True)
    print(_summary([row for row in rows.values() if row["key"].rpartition(", ")[0] in chosen]))
    wrong = [row for row in rows.values() if row.get("crash") or row.get("error", 0) > LIMIT]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
