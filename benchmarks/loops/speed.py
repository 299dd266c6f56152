"""The backend `loops` beside eager, aot_eager and Inductor: results, and time.

    python -m benchmarks.loops.speed                   # every program; prints tables in Markdown
    python -m benchmarks.loops.speed "mlp, training" "timm/convnext_atto, training"
    python -m benchmarks.loops.speed --every 20 [--mode training] [--fresh]     # of the zoo, too
    python -m benchmarks.loops.speed --device cuda --jobs 8 "ViT ×32, training" # 32 times the batch

Each cell is a process of its own. *Cold* is the time from `torch.compile` to the end of the first
call (with the backward, in training) minus that of a later call, with empty caches and nothing of
the backend imported; *warm* the same in a second process, with the caches that the first one left
(aot_eager leaves none); *steady* the shortest of later calls, in CPU time on one thread. *Cold* and
*warm* are also given by stage, in seconds with CPU time in brackets: imports, Dynamo (and the first
run), AOTAutograd, the backend's own Python, and the processes of the C++ compiler. *Generated* is
the share of the graphs' computing nodes that run in generated kernels; the rest are calls of extern
operators. *Error* is the largest difference from eager, over outputs and gradients, in parts of the
largest element of each tensor (at least 0.001).

On a GPU, *steady* is wall time until the device has finished, measured in one process at a time;
first calls run in `--jobs` processes, in each of which Inductor compiles on one thread unless
TORCHINDUCTOR_COMPILE_THREADS says otherwise. Convolutions use no TF32, and Inductor draws eager's
random numbers, as the other backends do. There is no *warm*. MB are the most memory that a call
allocates at a time.

Cells are added to benchmarks/results/loops-<speed or cuda>-<torch version>.jsonl as they come: an
interrupted run resumes.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import torch
from torch import nn

from benchmarks.models import ENTRIES as ZOO
from benchmarks.models.entry import Built, Entry
from benchmarks.models.step import Step, distance, on_device, peak_bytes, shortest_seconds
from benchmarks.models.vision_ops import load_torchvision
from benchmarks.stages import STAGES, StageTimes, log_compiler

RESULTS = Path(__file__).parents[1] / "results"
BACKENDS = ("loops", "aot_eager", "inductor")
SECONDS = 600
Program = Callable[[], tuple[nn.Module, tuple[Any, ...]]]
Row = dict[str, Any]


def _mlp() -> tuple[nn.Module, tuple[Any, ...]]:
    model = nn.Sequential(
        nn.Linear(64, 256), nn.LayerNorm(256), nn.GELU(), nn.Linear(256, 32), nn.Softmax(-1)
    )
    return model, (torch.randn(128, 64),)


def _vision(name: str, batch: int, **options: Any) -> Program:
    def build() -> tuple[nn.Module, tuple[Any, ...]]:
        load_torchvision()
        import timm

        return timm.create_model(name, **options), (torch.randn(batch, 3, 64, 64),)

    return build


def _text(kind: str, **sizes: Any) -> Program:
    def build() -> tuple[nn.Module, tuple[Any, ...]]:
        load_torchvision()
        import transformers

        config = getattr(transformers, f"{kind}Config")(vocab_size=500, **sizes)
        model = getattr(transformers, f"{kind}Model")(config)
        return model, (torch.randint(0, 500, (2, 64)),)

    return build


_BERT = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256,
    "max_position_embeddings": 64,
}  # fmt: skip
PROGRAMS: dict[str, Program] = {
    "mlp": _mlp,
    "ViT": _vision("vit_tiny_patch16_224", 2, img_size=64, depth=4, embed_dim=192),
    "ConvNeXt": _vision("convnext_atto", 2, depths=(1, 1, 1, 1)),
    "ResNet": _vision("resnet10t", 2),
    "Bert": _text("Bert", **_BERT),
    "Llama": _text("Llama", **_BERT),
    "GPT2": _text("GPT2", n_embd=64, n_layer=2, n_head=4, n_positions=64),
}
MODES = ("inference", "training")
CASES = [f"{name}, {mode}" for name in PROGRAMS for mode in MODES]


def build(case: str) -> Built:
    """Return the program or the model of the zoo that a case names, in the case's mode."""
    name, _, mode = case.rpartition(", ")
    name, _, times = name.partition(" ×")
    if name in ZOO:
        return ZOO[name].build()
    torch.manual_seed(0)
    model, inputs = PROGRAMS[name]()
    inputs = tuple(one.repeat_interleave(int(times or 1), 0) for one in inputs)
    return model.train(mode == "training"), inputs, {}


ENTRIES = {f"loops/{case}": Entry("loops", case, partial(build, case)) for case in CASES}
"""The cases as models of the zoo are listed."""


def run_case(case: str, backend: str, log: Path, device: str, *, warm: bool) -> Row:
    """Run one case in this process, with eager beside it if it is cold."""
    is_on_gpu = device != "cpu"
    torch.backends.cudnn.allow_tf32 = False
    built, mode = on_device(build(case), device), case.rpartition(", ")[2]
    twin, step = Step(copy.deepcopy(built), mode), Step(built, mode)
    torch.manual_seed(1)
    expected = twin.run()
    options: Any = {"fallback_random": True} if is_on_gpu and backend == "inductor" else None
    start = time.perf_counter()
    with StageTimes(log) as stages:
        compiled = torch.compile(step.model, backend=backend, options=options)
        torch.manual_seed(1)
        actual = step.run(compiled)
        if is_on_gpu:
            torch.cuda.synchronize()
        first = time.perf_counter() - start
    pairs = zip([*expected, *twin.gradients], [*actual, *step.gradients], strict=True)
    error = max((distance(one, other) for one, other in pairs), default=0.0)
    with _only_process():
        seconds = 0.3 if is_on_gpu else 1.0
        steady = shortest_seconds(lambda: step.run(compiled), seconds)
        eager = None if warm else shortest_seconds(twin.run, seconds)
    row = {"time": first - steady, "steady": steady, "error": error, "stages": stages.seconds()}
    if warm:
        return row
    row["eager"] = eager
    if is_on_gpu:
        row["peak"], row["eager peak"] = (
            peak_bytes(lambda: step.run(compiled)),
            peak_bytes(twin.run),
        )
    return row | (_count_nodes(built, mode) if backend == "loops" else {})


@contextlib.contextmanager
def _only_process() -> Iterator[None]:
    """In the block, no other process of this benchmark is in such a block."""
    with open(Path(tempfile.gettempdir()) / "loops-speed.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _count_nodes(built: Built, mode: str) -> Row:
    """Compile once more by loops; return what the graphs have."""
    programs: list[Any] = []
    torch.compiler.reset()
    options: Any = {"on_program": programs.append}
    step = Step(built, mode)
    step.run(torch.compile(step.model, backend="loops", options=options))
    nodes = {
        (number, origin)
        for number, one in enumerate(programs)
        for loop in one.plan.graph.steps
        for origin in getattr(loop, "origins", ())
    }
    externs = sum(len(one.externs) for one in programs)
    return {
        "kernels": sum(one.kernels for one in programs),
        "externs": externs,
        "generated": len(nodes) / max(len(nodes) + externs, 1),
    }


def run_fresh(case: str, backend: str, device: str) -> Row:
    """Run one case in a new process with empty caches; on a CPU, again with what that left."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **({"TORCHINDUCTOR_COMPILE_THREADS": "1"} if device != "cpu" else {}),
            **os.environ,
            "FULLGRAPH_CACHE_DIR": folder,
            "TORCHINDUCTOR_CACHE_DIR": folder,
            "TRITON_CACHE_DIR": f"{folder}/triton",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            **log_compiler(Path(folder)),
        }
        row: Row = {}
        has_warm = backend != "aot_eager" and device == "cpu"
        for state in ("cold", "warm") if has_warm else ("cold",):
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.loops.speed"]
            command += ["--cell", case, backend, state, f"{folder}/builds", "--device", device]
            try:
                done = subprocess.run(
                    command, env=environment, capture_output=True, text=True, timeout=SECONDS
                )
            except subprocess.TimeoutExpired:
                return {"failed": f"longer than {SECONDS} s"}
            if done.returncode:
                told = [t for t in done.stderr.splitlines() if "Error" in t or "operator" in t]
                return {"failed": (told or ["?"])[-1][:160], "log": done.stderr[-4000:]}
            row[state] = json.loads(done.stdout.splitlines()[-1])
    return row


def _times(row: Row) -> list[str]:
    """Return the cells of a backend in the table of speed."""
    if "failed" in row:
        return ["–"] * 3
    warm = f"{row['warm']['time']:.1f}" if "warm" in row else "–"
    return [f"{row['cold']['time']:.1f}", warm, f"{1e3 * _steady(row):.2f}"]


def _steady(row: Row) -> float:
    return min(one["steady"] for one in (row["cold"], row.get("warm", row["cold"])))


def speed_table(rows: dict[str, Row], cases: Iterable[str]) -> str:
    """Return the table of results and times in Markdown."""
    lines = ["| program | error | of aot_eager | kernels | externs | generated | eager ms |"]
    lines[0] += "".join(f" {one} cold s | warm s | steady ms |" for one in BACKENDS)
    lines.append("| --- " + "| ---: " * (6 + 3 * len(BACKENDS)) + "|")
    for case in cases:
        found = {backend: rows[f"{case}, {backend}"] for backend in BACKENDS}
        if "failed" in found["loops"]:
            lines.append(f"| {case} | {found['loops']['failed']} |")
            continue
        ours, other = found["loops"]["cold"], found["aot_eager"].get("cold", {"error": -1})
        cells = [case, f"{ours['error']:.0e}", f"{other['error']:.0e}", str(ours["kernels"])]
        cells += [str(ours["externs"]), f"{ours['generated']:.0%}", f"{1e3 * ours['eager']:.2f}"]
        cells += [cell for row in found.values() for cell in _times(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def gpu_table(rows: dict[str, Row], cases: Iterable[str]) -> str:
    """Return the table of Inductor's errors, and of the memory that a call allocates, in MB."""
    lines = ["| program | error | of inductor | eager MB |", "| --- | ---: | ---: | ---: |"]
    lines[0] += "".join(f" {one} MB |" for one in BACKENDS)
    lines[1] += " ---: |" * len(BACKENDS)
    for case in cases:
        found = [rows[f"{case}, {backend}"].get("cold", {}) for backend in BACKENDS]
        cells = [f"{one['error']:.0e}" if one else "–" for one in (found[0], found[-1])]
        peaks = [next((one["eager peak"] for one in found if one), None)]
        peaks += [one.get("peak") for one in found]
        cells += ["–" if peak is None else f"{peak / 1e6:.1f}" for peak in peaks]
        lines.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(lines)


def stage_table(rows: dict[str, Row], cases: Iterable[str]) -> str:
    """Return the table of seconds by stage, of `loops` and Inductor, cold and warm."""
    lines = [f"| program | backend | state | {' | '.join(STAGES)} | sum |"]
    lines.append("| --- | --- | --- " + "| ---: " * (len(STAGES) + 1) + "|")
    for case in cases:
        for backend in ("loops", "inductor"):
            row = rows[f"{case}, {backend}"]
            for state in () if "failed" in row else ("cold", "warm"):
                wall, cpu = (row[state]["stages"][kind] for kind in ("wall", "cpu"))
                pairs = [(wall[name], cpu[name]) for name in STAGES]
                pairs.append((sum(wall.values()), sum(cpu.values())))
                cells = " | ".join(f"{one:.2f} ({other:.2f})" for one, other in pairs)
                lines.append(f"| {case} | {backend} | {state} | {cells} |")
    return "\n".join(lines)


def summary(rows: dict[str, Row], cases: Iterable[str], device: str) -> str:
    """Return geometric means over the cases that both ran; CPU times only of cases on a CPU."""
    lines = []
    for other in BACKENDS[1:]:
        pairs = [(rows[f"{case}, loops"], rows[f"{case}, {other}"]) for case in cases]
        pairs = [pair for pair in pairs if not any("failed" in row for row in pair)]
        if not pairs:
            continue
        parts = {
            "cold": lambda row: row["cold"]["time"],
            "cold in CPU time": lambda row: _cpu(row, "cold"),
            "without imports": lambda row: _cpu(row, "cold", STAGES[1:]),
            "warm": lambda row: row["warm"]["time"],
            "warm in CPU time": lambda row: _cpu(row, "warm"),
            "without imports, warm": lambda row: _cpu(row, "warm", STAGES[1:]),
            "steady": _steady,
        }
        means = {
            name: geometric_mean(part(ours) / part(theirs) for ours, theirs in pairs)
            for name, part in parts.items()
            if all("warm" in row for pair in pairs for row in pair) or "warm" not in name
            if device == "cpu" or name in ("cold", "warm", "steady")
        }
        told = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())
        lines.append(f"loops over {other}, geometric means over {len(pairs)} cases: {told}")
    return "\n".join(lines)


def _cpu(row: Row, state: str, stages: Iterable[str] = STAGES) -> float:
    """Return the CPU time of stages of a first call."""
    return sum(row[state]["stages"]["cpu"][name] for name in stages)


def main() -> None:
    """Measure what is not known, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help='"mlp, training"')
    parser.add_argument("--every", type=int, metavar="N", help="each N-th model of the zoo, too")
    parser.add_argument("--mode", choices=MODES, help="this mode only")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes at a time")
    parser.add_argument("--cell", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    device = options.device
    if options.cell:
        case, backend, state, log = options.cell
        torch.set_num_threads(1)
        print(json.dumps(run_case(case, backend, Path(log), device, warm=state == "warm")))
        return
    zoo = [*ZOO][:: options.every] if options.every else []
    cases = options.cases or CASES + [f"{key}, {mode}" for key in zoo for mode in MODES]
    cases = [case for case in cases if options.mode in (None, case.rpartition(", ")[2])]
    path = RESULTS / f"loops-{'speed' if device == 'cpu' else device}-{version('torch')}.jsonl"
    if options.fresh:
        path.unlink(missing_ok=True)
    lines = path.read_text().splitlines() if path.exists() else []
    rows: dict[str, Row] = {row["key"]: row for row in map(json.loads, lines)}
    wanted = [(f"{case}, {backend}", case, backend) for case in cases for backend in BACKENDS]
    with path.open("a") as file, ThreadPoolExecutor(options.jobs) as threads:

        def measure(cell: tuple[str, str, str]) -> None:
            key, case, backend = cell
            rows[key] = {"key": key, **run_fresh(case, backend, device)}
            file.write(json.dumps(rows[key]) + "\n")
            file.flush()
            print(key, rows[key].get("failed") or _times(rows[key]), file=sys.stderr)

        list(threads.map(measure, [cell for cell in wanted if cell[0] not in rows]))
    second = stage_table(rows, cases) if device == "cpu" else gpu_table(rows, cases)
    print(speed_table(rows, cases), second, summary(rows, cases, device), sep="\n\n")


if __name__ == "__main__":
    main()
