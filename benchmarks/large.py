"""What `explain` and `fix` cost on modules with 1 GB of parameters each.

    python benchmarks/large.py [--only PART] [--phases]

Each run is a fresh process. *memory* is the greatest sum of the PSS (proportional set size: a page
that n processes share counts 1/n in each) of the process and all its descendants, sampled every
0.1 s, *cpu* the CPU time with the forked children, both without the construction of the module.
The exit code is 1 if a peak exceeds 6 GB, or a CPU time 5 minutes. The table goes to
benchmarks/results/large-<commit>.md. `--phases` prints the peak of each step of `fix`, too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)] if str(ROOT) not in sys.path else []

from benchmarks.fix_speed import SECONDS, cpu_seconds, outcome_of  # noqa: E402
from benchmarks.models.entry import Built  # noqa: E402
from benchmarks.models.vision_ops import load_torchvision  # noqa: E402

GIB = 1 << 30
MEMORY, CPU = 6 * GIB, 300.0
"""Limits: bytes of the process tree, and seconds."""
INTERVAL = 0.1
"""Seconds between two samples of the memory."""


class Table(torch.nn.Module):
    """An embedding table of 1 GB, and a branch on the values that were looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(1 << 18, 1 << 10)
        self.head = torch.nn.Linear(1 << 10, 8)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the logits of the mean of the rows, mirrored if it is negative."""
        mean = self.table(ids).mean(1)
        if mean.sum() < 0:
            mean = -mean
        return self.head(mean)


class Wide(torch.nn.Module):
    """Four linear layers of 256 MB each; the network prints the mean of its activations."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(1 << 13, 1 << 13) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the activations, scaled down where they grow large."""
        for layer in self.layers:
            x = torch.relu(layer(x))
        if x.mean().item() > 1.0:
            x = x / x.mean()
        return x


def _table() -> Built:
    return Table().eval(), (torch.randint(0, 1 << 18, (2, 16)),), {}


def _wide() -> Built:
    return Wide(), (torch.randn(4, 1 << 13),), {}


def _decoder() -> Built:
    """Return GPT-2 at the width of its largest version, with six layers, in training."""
    import transformers

    load_torchvision()
    config = transformers.GPT2Config(n_embd=1600, n_head=25, n_layer=6)
    ids = torch.randint(2, 1000, (1, 16))
    model = transformers.GPT2LMHeadModel(config).train()
    return model, (), {"input_ids": ids, "labels": ids}


MODELS: dict[str, Callable[[], Built]] = {
    "embedding table": _table,
    "wide linear layers (train)": _wide,
    "GPT2LMHeadModel, 1600 wide (train)": _decoder,
}


def measure(name: str, command: str) -> dict[str, Any]:
    """Run `explain` or `fix` on one module in this process; return its CPU time and results."""
    from fullgraph import explain, fix

    torch.manual_seed(0)
    model, args, kwargs = MODELS[name]()
    print(json.dumps({"step": "start", "bytes": _parameter_bytes(model)}), flush=True)
    before = cpu_seconds()
    if command == "explain":
        found = explain(model, args, kwargs=kwargs, seconds=SECONDS).to_dict()
        outcome = [[c["line"], c["category"]] for c in found["causes"]]
    else:
        made = fix(model, args, kwargs=kwargs, seconds=SECONDS, progress=_print_step)
        outcome = outcome_of(made.to_dict())
    with suppress(ChildProcessError):  # children are reaped in threads
        while os.waitpid(-1, 0):
            pass
    return {"cpu": cpu_seconds() - before, "outcome": outcome}


def _parameter_bytes(model: Any) -> int:
    return sum(one.numel() * one.itemsize for one in model.parameters())


def _print_step(step: Any) -> None:
    print(json.dumps({"step": step.what}), flush=True)


def run_child(name: str, command: str) -> dict[str, Any]:
    """Measure in a process of its own; return its answer, with the peak of each step in bytes."""
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    environment = {**os.environ, **threads, "PYTHONPATH": str(ROOT)}
    call = [sys.executable, __file__, "--child", name, command]
    child = subprocess.Popen(call, stdout=subprocess.PIPE, env=environment, cwd=ROOT)
    assert child.stdout is not None
    os.set_blocking(child.stdout.fileno(), False)
    printed, peaks, bytes_ = b"", dict[str, int](), 0
    while child.poll() is None:
        time.sleep(INTERVAL)
        printed += child.stdout.read() or b""
        steps = [json.loads(line) for line in printed.splitlines(keepends=True) if b"\n" in line]
        if steps and (step := steps[-1].get("step")):
            peaks[step] = max(peaks.get(step, 0), sum(map(_pss, _tree(child.pid))))
            bytes_ = steps[0]["bytes"]
    printed += child.stdout.read() or b""
    if child.returncode:
        raise SystemExit(f"{command} of {name} ended with {child.returncode}")
    answer: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return {**answer, "peaks": peaks, "memory": max(peaks.values()), "bytes": bytes_}


def _tree(pid: int) -> Iterator[int]:
    """Yield a process and its descendants."""
    yield pid
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from _tree(int(child))


def _pss(pid: int) -> int:
    """Return the proportional set size of a process in bytes; 0 if it is gone."""
    with suppress(OSError):
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
        return int(found[1]) * 1024 if found else 0
    return 0


def main() -> int:
    """Measure what was chosen; the exit code is what the module's docstring says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="PART", help="modules named like this")
    parser.add_argument("--phases", action="store_true", help="print the peak of each step")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(*options.child)))
        return 0
    lines = [
        "| module | parameters | explain: memory | cpu | fix: memory | cpu | accepted edits |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    within = True
    for name in (name for name in MODELS if options.only in name):
        runs = [run_child(name, command) for command in ("explain", "fix")]
        cells = [f"{one['memory'] / GIB:.2f} GiB | {one['cpu']:.0f} s" for one in runs]
        edits = sum(bool(accepted) for *_, accepted in runs[1]["outcome"][0])
        size = f"{runs[1]['bytes'] / GIB:.2f} GiB"
        lines.append(f"| {name} | {size} | {' | '.join(cells)} | {edits} |")
        print(lines[-1], flush=True)
        for step, peak in runs[1]["peaks"].items() if options.phases else ():
            print(f"    {peak / GIB:5.2f} GiB  {step}")
        within &= all(one["memory"] <= MEMORY and one["cpu"] <= CPU for one in runs)
    if not options.only:
        git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
        report = "\n".join(lines)
        (ROOT / "benchmarks" / "results" / f"large-{commit}.md").write_text(f"{report}\n")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
