"""What an explanation costs beside `torch._dynamo.explain`: thirty models, half of them breaking.

    python benchmarks/explain_speed.py [--repeats 3] [--only PART] [--targets]

Each measurement is made in a fresh process forked from one warmed server, and the order of what
is compared alternates; *warm* takes place in one process, where each side has run before. Every
number is the median of a model's repeats by another such median; models are joined by the
geometric mean. Three numbers have a target:

- *report*: seconds until the report of the default mode is there (the first thing that explain
  gives; all of it for a clean model), by those of `torch._dynamo.explain`: at most 1.3;
- *warm report*: the same in one process, after each side has run there: at most 1.3;
- *recorder*: a plain `torch.compile(backend="eager")` call from reset under `record()`, by the
  same without, in CPU time: at most 1.05.

Beside them stand the prices of what `torch._dynamo.explain` does not have: *both modes*, the whole
of `explain(unmask=False)`, and *unmasked*, the whole of `explain()`, by `torch._dynamo.explain`;
*fork* and *process*, a recorded compilation isolated in a forked child or by snapshot and restore,
by the same not isolated; `--targets` leaves these prices out. The exit code is 1 if a target is
missed or a side crashed; no absolute time is judged.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, Literal

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.models import survey
from benchmarks.models.entry import Built
from benchmarks.server import Server
from benchmarks.trial import Side

BREAKING = (
    *(entry.key for entry in survey.BREAKING),
    "transformers/LongformerModel",
    "transformers/ViltModel",
    "transformers/GPT2LMHeadModel (train)",
    "timm/sequencer2d_s",
    "torch_geometric/GCNConv",
    "torch_geometric/TopKPooling",
    "diffusers/DDPMScheduler.step",
    "kornia/Canny",
)
CLEAN = (
    *(entry.key for entry in survey.CLEAN),
    "transformers/BertModel",
    "transformers/LlamaModel",
    "transformers/T5Model",
    "transformers/ViTModel",
    "timm/convnext_atto",
    "timm/resnet18",
    "timm/vit_tiny_patch16_224",
    "torch_geometric/SAGEConv",
    "diffusers/UNet2DModel",
    "segmentation-models-pytorch/Unet",
)
PAIRS = 5
"""Compilations with and without the recorder, in one process."""


TARGETS = {"report": 1.3, "warm report": 1.3, "recorder": 1.05}


def theirs(built: Built) -> dict[str, Any]:
    """Seconds of `torch._dynamo.explain`."""
    model, args, kwargs = built
    start = perf_counter()
    torch._dynamo.explain(model)(*args, **kwargs)
    return {"explain": perf_counter() - start}


def both_modes(built: Built) -> dict[str, Any]:
    """Seconds of `explain(unmask=False)`, until its first report and until its last."""
    steps = _steps(built, unmask=False)
    return {"report": steps[0], "both modes": steps[-1]}


def unmasked(built: Built) -> dict[str, Any]:
    """Seconds of all that explain does."""
    return {"unmasked": _steps(built, unmask=True)[-1]}


def _steps(built: Built, unmask: bool) -> list[float]:
    from fullgraph.diagnose.explain import explain

    model, args, kwargs = built
    steps: list[float] = []
    start = perf_counter()
    explain(
        model,
        args,
        kwargs=kwargs,
        unmask=unmask,
        progress=lambda _: steps.append(perf_counter() - start),
    )
    return steps


def warm(built: Built) -> dict[str, Any]:
    """Median seconds of both explanations in one process, after each has run there once."""
    times: dict[str, list[float]] = {"warm explain": [], "warm report": [], "warm whole": []}
    for pair in range(PAIRS + 1):
        torch._dynamo.reset()
        gc.collect()
        explained = theirs(built)["explain"]
        torch._dynamo.reset()
        gc.collect()
        steps = _steps(built, unmask=True)
        if pair:
            for name, seconds in zip(times, (explained, steps[0], steps[-1]), strict=True):
                times[name].append(seconds)
    return {name: median(seconds) for name, seconds in times.items()}


def bare(built: Built) -> dict[str, Any]:
    """Seconds of a recorded compilation that is not isolated."""
    start = perf_counter()
    _recording(built)
    return {"bare": perf_counter() - start}


def fork(built: Built) -> dict[str, Any]:
    """Seconds of a recorded compilation in a forked child."""
    return _isolated(built, "fork")


def process(built: Built) -> dict[str, Any]:
    """Seconds of a recorded compilation in this process, everything put back afterwards."""
    return _isolated(built, "process")


def _isolated(built: Built, where: Literal["fork", "process"]) -> dict[str, Any]:
    from fullgraph.compiler.isolation import run_isolated

    start = perf_counter()
    run_isolated(lambda emit: _recording(built), objects=built, where=where)
    return {where: perf_counter() - start}


def _recording(built: Built) -> object:
    from fullgraph.compiler.recording import record

    model, args, kwargs = built
    with record(model) as listening:
        torch.compile(model, backend="eager")(*args, **kwargs)
    return listening.recording


def recorder(built: Built) -> dict[str, Any]:
    """Median CPU seconds of a compilation from reset, with and without the recorder.

    All of the work is this thread's, and CPU time does not see what else the machine is doing.
    """
    from fullgraph.compiler.recording import record

    model, args, kwargs = built

    def compile_once(recorded: bool) -> float:
        torch._dynamo.reset()
        gc.collect()
        torch.manual_seed(0)
        start = process_time()
        with record(model) if recorded else nullcontext():
            torch.compile(model, backend="eager")(*args, **kwargs)
        return process_time() - start

    times: dict[bool, list[float]] = {False: [], True: []}
    for pair in range(PAIRS + 1):
        for recorded in (False, True) if pair % 2 else (True, False):
            times[recorded].append(compile_once(recorded))
    plain, recorded_times = (median(times[which][1:]) for which in (False, True))
    return {"plain": plain, "recorded": recorded_times}


@dataclass(frozen=True)
class Price:
    """One column: the sides that measure it, and the two seconds whose ratio it is."""

    name: str
    of: str
    by: str


PRICES = (
    Price("report", "report", "explain"),
    Price("recorder", "recorded", "plain"),
    Price("warm report", "warm report", "warm explain"),
    Price("warm whole", "warm whole", "warm explain"),
    Price("both modes", "both modes", "explain"),
    Price("unmasked", "unmasked", "explain"),
    Price("fork", "fork", "bare"),
    Price("process", "process", "bare"),
)
GROUPS: tuple[tuple[Side, ...], ...] = (
    (theirs, both_modes),
    (recorder,),
    (warm,),
    (unmasked,),
    (bare, fork, process),
)
"""Sides that are compared with one another, in turns. The recorder alternates by itself."""
TARGET_GROUPS = GROUPS[:3]
ONCE = (unmasked, recorder, warm)
"""Sides that are not repeated: the first takes long, the others repeat by themselves."""


def measure(
    server: Server, key: str, repeats: int, groups: Sequence[Sequence[Side]]
) -> dict[str, float]:
    """Median seconds of everything that was timed on one model. Raises RuntimeError on a crash."""
    times: dict[str, list[float]] = {}
    for group in groups:
        for repeat in range(1 if group[0] in ONCE else repeats):
            for side in group[:: -1 if repeat % 2 else 1]:
                answer = server.ask(side, key)
                if answer["crash"]:
                    raise RuntimeError(f"{side.__name__}: {answer['crash']}")
                for name in answer.keys() - {"seconds", "crash"}:
                    times.setdefault(name, []).append(answer[name])
    return {name: median(values) for name, values in times.items()}


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    logs = [log(ratio) for ratio in ratios]
    return exp(sum(logs) / len(logs))


def main() -> int:
    """Measure and print; the exit code is what the module's docstring says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="of each measurement")
    parser.add_argument("--targets", action="store_true", help="measure what has a target alone")
    parser.add_argument("--only", default="", metavar="PART", help="models whose key holds PART")
    options = parser.parse_args()
    keys = [key for key in (*BREAKING, *CLEAN) if options.only in key]
    if not keys:
        print(f"no model's key holds {options.only!r}", file=sys.stderr)
        return 2
    groups = TARGET_GROUPS if options.targets else GROUPS
    prices = PRICES[:4] if options.targets else PRICES
    server = Server(timeout=300)
    ratios: dict[str, dict[str, float]] = {}
    crashes = 0
    head = (f"{price.name:>11}" for price in prices)
    print(f"{'':40}{'explain s':>10}", *head, flush=True)
    for key in keys:
        try:
            seconds = measure(server, key, options.repeats, groups)
        except RuntimeError as crash:
            crashes += 1
            print(f"{key:40}{crash}", flush=True)
            continue
        ratios[key] = {price.name: seconds[price.of] / seconds[price.by] for price in prices}
        print(f"{key:40}{seconds['explain']:10.3f}", *_cells(ratios[key]), flush=True)
    means = {}
    for title, chosen in (("clean", CLEAN), ("breaking", BREAKING), ("all", (*BREAKING, *CLEAN))):
        rows = [ratios[key] for key in chosen if key in ratios]
        if rows:
            means = {price.name: mean(row[price.name] for row in rows) for price in prices}
            print(f"{f'geometric mean, {title} ({len(rows)})':50}", *_cells(means))
    missed = [
        f"{name} costs {means[name]:.3f}, the target is {target}"
        for name, target in TARGETS.items()
        if means and means[name] > target
    ]
    print(*missed, sep="\n")
    return 1 if missed or crashes else 0


def _cells(row: dict[str, float]) -> list[str]:
    return [f"{ratio:11.3f}" for ratio in row.values()]


if __name__ == "__main__":
    sys.exit(main())
