"""Bugs of Inductor in real models: where `compile` runs them, and the stage that `bisect` names.

    python -m benchmarks.loops.bugs FOLDER            # every script of a verified compiler bug
    python -m benchmarks.loops.bugs FOLDER bool_sum_dtype softshrink_nan

A script has `build()`, which returns a callable and its inputs, and `CHECK_STRIDES`. The callable
runs in one graph with each of `MODELS`, in training, under `compile`; `bisect` gets it alone.
*Aot_eager* is that rung's outcome. *Equal* says whether outputs, gradients and buffers are eager's.
Each cell is a process of its own with empty caches. The table is Markdown.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from benchmarks.loops.speed import PROGRAMS
from fullgraph.compiler.fallback import compile, report
from fullgraph.minifier.bisect.bisect import bisect

MODELS = ("ResNet", "Bert")
SECONDS = 600


class Buried(nn.Module):
    """A model, and in the same graph a callable that Inductor gets wrong."""

    def __init__(self, model: nn.Module, bug: Any) -> None:
        super().__init__()
        self.model, self.bug = model, bug

    def forward(self, inputs: tuple[Any, ...], others: tuple[Any, ...]) -> tuple[Any, Any]:
        output = self.model(*inputs)
        return output if isinstance(output, torch.Tensor) else output[0], self.bug(*others)


def run_in_model(script: ModuleType, name: str) -> dict[str, Any]:
    """Train the model `name` with the bug beside it for a step, under `compile` and in eager."""
    torch.manual_seed(0)
    model, inputs = PROGRAMS[name]()
    buried = Buried(model.train(), script.build()[0])
    others = script.build()[1]
    twin = copy.deepcopy(buried)
    expected = _train(twin, twin, inputs, others)
    compiled = compile(buried, check_strides=script.CHECK_STRIDES, log=lambda message: None)
    actual = _train(buried, compiled, inputs, others)
    graphs = report(compiled)
    return {
        "rungs": ", ".join(sorted({graph.rung for graph in graphs})),
        "reasons": "; ".join(reason for graph in graphs for reason in graph.reasons),
        "equal": all(map(_is_close, expected, actual)),
    }


def _train(module: nn.Module, run: Any, inputs: Any, others: Any) -> list[torch.Tensor]:
    """Run a step of `module` by `run`; return outputs, gradients and buffers."""
    torch.manual_seed(1)
    output, found = run(inputs, others)
    (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum().backward()
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in module.parameters()]
    return [output.detach(), found.detach(), *gradients, *module.buffers()]


def _is_close(expected: torch.Tensor, actual: torch.Tensor) -> bool:
    same = expected.dtype == actual.dtype and expected.shape == actual.shape
    return same and torch.allclose(expected, actual, rtol=1e-3, atol=1e-4, equal_nan=True)


def run_alone(script: ModuleType) -> dict[str, Any]:
    """Bisect the bug alone."""
    torch.manual_seed(0)
    model, inputs = script.build()
    found = bisect(model, inputs, check_strides=script.CHECK_STRIDES)
    return {**found.to_dict(), "stage": found.stage or found.refused or ""}


STAGE = "first failing rung, loops beside it: stage"
COLUMNS = ("bug", "aot_eager", STAGE, "model", "why", "runs on", "equal")


def main(folder: str, *chosen: str) -> None:
    """Print the table of the bugs `chosen`, by default of all, a line as soon as it is known."""
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    for path in sorted(Path(folder).glob("*.py")):
        if chosen and path.stem not in chosen:
            continue
        alone = _ask(str(path), "")
        told = ", ".join([str(alone.get("first_failing")), *(alone.get("beside") or {}).values()])
        told = f"{(alone.get('rungs') or {}).get('aot_eager')} | {told}: {alone.get('stage')}"
        for name in MODELS:
            cell = _ask(str(path), name)
            reason = cell.get("reasons", "")[:90].replace("|", "\\|")
            equal = "yes" if cell.get("equal") else "no"
            print(f"| {path.stem} | {told} | {name} | {reason} | {cell.get('rungs')} | {equal} |")
            sys.stdout.flush()
            told = " | "


def _ask(path: str, name: str) -> dict[str, Any]:
    """Run one cell in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {"TORCHINDUCTOR_CACHE_DIR": folder, "FULLGRAPH_CACHE_DIR": folder}
        code = f"from benchmarks.loops import bugs; bugs.answer({path!r}, {name!r})"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **caches},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if lines else {"reasons": done.stderr.splitlines()[-1]}


def answer(path: str, name: str) -> None:
    """Print the result of one cell as JSON: of `bisect` if `name` is ""."""
    spec = importlib.util.spec_from_file_location("bug", path)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules["bug"] = script
    spec.loader.exec_module(script)
    print(json.dumps(run_in_model(script, name) if name else run_alone(script)))


if __name__ == "__main__":
    main(*sys.argv[1:])
