"""Lower the graphs of every model of the zoo; report operators outside the tiers.

    python -m benchmarks.lowering_zoo [--only PART]

A model is called once with gradients and once without; the columns count the calls of operators in
all its graphs together: inside the tier, extern, and the names of those outside. *traced* is how
many graphs AOTAutograd traced, joint ones included. A model that torch cannot trace has its error.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import default_partition

from benchmarks.models import ENTRIES
from fullgraph.compiler.lowering.prims import (
    TierReport,
    decompositions,
    lower_to_canonical,
    lower_to_prims,
    report,
)

Graph = torch.fx.GraphModule


def trace_graphs(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, grad: bool
) -> list[Graph]:
    """Return the graphs that AOTAutograd traces in one call: joint ones, and those for inference.

    They are decomposed into canonical operators while they are traced, as a backend would.
    """
    graphs: list[Graph] = []

    def partition(joint: Graph, *rest: Any, **options: Any) -> tuple[Graph, Graph]:
        graphs.append(joint)
        return default_partition(joint, *rest, **options)

    def keep(module: Graph, inputs: object) -> object:
        graphs.append(module)
        return make_boxed_func(module.forward)

    def leave(module: Graph, inputs: object) -> object:
        return make_boxed_func(module.forward)

    backend = aot_autograd(
        fw_compiler=leave,
        bw_compiler=leave,
        inference_compiler=keep,
        partition_fn=partition,
        decompositions=dict(decompositions()),
    )
    torch.compiler.reset()
    with torch.set_grad_enabled(grad):
        torch.compile(function, backend=backend)(*args, **kwargs)
    return graphs


def tier_reports(graphs: Sequence[Graph]) -> tuple[list[TierReport], list[TierReport]]:
    """Return the reports of graphs in canonical operators, and of the same graphs in prims."""
    canonical = [lower_to_canonical(graph) for graph in graphs]
    lowered = [lower_to_prims(graph) for graph in canonical]
    return [report(one) for one in canonical], [report(one, "prims") for one in lowered]


def _cells(reports: Sequence[TierReport]) -> list[str]:
    """Return the cells of one tier: calls inside and extern, and names outside."""
    outside: Counter[str] = Counter()
    for one in reports:
        outside.update(one.outside)
    inside = sum(sum(one.inside.values()) for one in reports)
    extern = sum(sum(one.extern.values()) for one in reports)
    return [str(inside), str(extern), ", ".join(f"{n} × {c}" for n, c in outside.items())]


def main() -> None:
    """Print a table as Markdown."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="part of the keys of the models")
    options = parser.parse_args()
    print("| model | traced | canonical | extern | outside | prims | extern | outside | s |")
    print("| --- | ---: | ---: | ---: | --- | ---: | ---: | --- | ---: |")
    closed = traced = 0
    keys = [key for key in ENTRIES if options.only in key]
    for key in keys:
        start = time.perf_counter()
        try:
            function, args, kwargs = ENTRIES[key].build()
            graphs = [
                g for on in (True, False) for g in trace_graphs(function, args, kwargs, grad=on)
            ]
            pair = tier_reports(graphs)
        except Exception as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            text = " ".join(lines[:2])[:160].replace("|", "\\|")
            print(f"| {key} | {type(error).__name__}: {text} |", flush=True)
            continue
        traced += 1
        closed += all(one.is_closed for reports in pair for one in reports)
        cells = [key, str(len(graphs)), *_cells(pair[0]), *_cells(pair[1])]
        print(f"| {' | '.join(cells)} | {time.perf_counter() - start:.0f} |", flush=True)
    print(f"\n{closed} of {traced} traced models are closed; {len(keys) - traced} have errors.")


if __name__ == "__main__":
    main()
