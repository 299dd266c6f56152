"""torch's minifier and ours on the same bugs in the same model, each alone.

    python benchmarks/minify.py                         # all injected bugs, one after another
    python benchmarks/minify.py relu/accuracy log1p/accuracy --limit 900
    python benchmarks/minify.py copysign_layout         # a report of `benchmarks/reports`

An injected bug is one that Inductor's settings for tests put into a vision transformer. Torch's
minifier works after AOTAutograd where Inductor is at fault, and after Dynamo otherwise. For each:
the number of oracle calls (candidates that were asked about), wall time of the whole process, lines
of the repro without comments, and whether that file, alone in an empty folder, fails. Torch's goes
its two ways: isolated (its default; each candidate in a process of its own) and, with --both, in
process. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.reports import REPORTS

BUGS = ("relu", "log1p")
HOWS = ("compile_error", "runtime_error", "accuracy")
COUNT = "FULLGRAPH_BENCHMARK_COUNT"


@dataclass(frozen=True)
class Row:
    """What one minifier made of one bug."""

    calls: int | None
    seconds: float
    lines: int | None
    alone: bool
    note: str = ""

    def __str__(self) -> str:
        calls, lines = (("–" if n is None else n) for n in (self.calls, self.lines))
        alone = "yes" if self.alone else "no"
        return (
            f"{calls:>5} calls {self.seconds:7.0f} s {lines:>4} lines  alone: {alone} {self.note}"
        )


def build() -> tuple[object, tuple[object, ...]]:
    """A vision transformer of three blocks, about 310 ATen nodes, with one relu and one log1p."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            b, n, d = x.shape
            qkv = self.qkv(self.first(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            q, k, v = qkv.unbind(0)
            scores = (q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5).softmax(-1)
            x = x + self.out((scores @ v).transpose(1, 2).reshape(b, n, d))
            return x + self.down(nn.functional.gelu(self.up(self.second(x))))

    class Net(nn.Module):
        def __init__(self, width: int = 32) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 4, 4)
            self.place = nn.Parameter(torch.randn(1, 16, width) * 0.02)
            self.blocks = nn.ModuleList(Block(width, 4) for _ in range(3))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.patches(x).flatten(2).transpose(1, 2) + self.place
            x = torch.relu(self.blocks[0](x))
            x = torch.log1p(self.blocks[1](x).abs())
            return self.head(self.norm(self.blocks[2](x)).mean(1))

    torch.manual_seed(0)
    return Net().eval(), (torch.randn(2, 3, 16, 16),)


def inject(bug: str, how: str) -> None:
    import torch._inductor.config as config

    setattr(config.cpp, f"inject_{bug}_bug_TESTING_ONLY", how)


# --- each side, in a process of its own ---


def _prepare(case: str) -> tuple[object, tuple[object, ...]]:
    """Return the model and the inputs of a case, whose bug is in this process from now on."""
    import torch

    bug, _, how = case.partition("/")
    if not how:
        return REPORTS[case].build()
    inject(bug, how)
    torch.set_grad_enabled(False)
    return build()


def ours(case: str) -> None:
    """Minify, and print JSON."""
    from fullgraph import minify

    model, inputs = _prepare(case)
    found = minify(model, inputs, check_strides="/" not in case)  # type: ignore[arg-type]
    names = ("candidates", "calls", "text", "ops")
    print(json.dumps({name: getattr(found, name) for name in names}))


def fail(case: str) -> None:
    """Run the compiled model: torch's minifier takes notice if it is asked to."""
    import torch

    model, inputs = _prepare(case)
    torch.compile(model)(*inputs)  # type: ignore[operator]


def launch(path: str) -> None:
    """Run torch's launcher, counting how often it asks its oracle."""
    import functorch.compile

    calls = 0
    original = functorch.compile.minifier

    def minifier(graph, inputs, module_fails, *args, **kwargs):  # type: ignore[no-untyped-def]
        def counted(*given):  # type: ignore[no-untyped-def]
            nonlocal calls
            calls += 1
            Path(os.environ[COUNT]).write_text(str(calls))
            return module_fails(*given)

        return original(graph, inputs, counted, *args, **kwargs)

    functorch.compile.minifier = minifier
    sys.argv = [path, *sys.argv[4:]]
    runpy.run_path(path, run_name="__main__")


# --- the race ---


def race(case: str, limit: float, both: bool) -> Iterator[tuple[str, Row]]:
    """Every minifier's row for one bug, as it is known."""
    yield "fullgraph", _ours(case, limit)
    isolated = "torch, isolated"
    yield isolated, _torchs(case, limit, isolate=True)
    if both and not case.endswith("/runtime_error"):  # it would end torch's minifier itself
        yield "torch, in process", _torchs(case, limit, isolate=False)


def _ours(case: str, limit: float) -> Row:
    start = time.monotonic()
    done = _run(["ours", case], limit, {}, os.getcwd())
    if done is None:
        return Row(None, limit, None, False, "not done in time")
    seconds = time.monotonic() - start
    told = json.loads(done.stdout.strip().splitlines()[-1])
    text, note = told["text"], f"{told['ops']} ops, {told['calls']} tries with the bisection"
    return Row(told["candidates"], seconds, _lines(text), _alone(text), note)


def _torchs(case: str, limit: float, isolate: bool) -> Row:
    folder = tempfile.mkdtemp(prefix="torch-minifier-")
    try:
        report = REPORTS.get(case)
        kind = report.kind if report is not None else case.partition("/")[2]
        early = report is not None and report.rung != "inductor"
        level = "4" if kind == "accuracy" else "2"
        environment = {
            "TORCHDYNAMO_REPRO_AFTER": "dynamo" if early else "aot",
            "TORCHDYNAMO_REPRO_LEVEL": level,
            "TORCH_COMPILE_DEBUG_DIR": folder,
            "TORCHINDUCTOR_CACHE_DIR": str(Path(folder, "cache")),
            COUNT: str(Path(folder, "count")),
        }
        start = time.monotonic()
        first = _run(["fail", case], limit, environment, folder)
        launchers = sorted(Path(folder).rglob("minifier_launcher.py"))
        if first is None or not launchers:
            return Row(None, time.monotonic() - start, None, False, "no launcher was written")
        options = ["minify", "--isolate" if isolate else "--no-isolate"]
        left = limit - (time.monotonic() - start)
        done = _run(["launch", str(launchers[0]), *options], left, environment, folder)
        seconds = time.monotonic() - start
        count = Path(folder, "count")
        calls = int(count.read_text()) if count.exists() else None
        repro = next((p for p in sorted(Path(folder).rglob("repro.py"))), None)
        if repro is None:
            note = "nothing written" if done is not None else "not done in time"
            return Row(calls, seconds, None, False, note)
        text = repro.read_text()
        note = "" if done is not None else "not done in time"
        return Row(calls, seconds, _lines(text), _alone(text), note)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(
    arguments: list[str], limit: float, environment: dict[str, str], folder: str
) -> subprocess.CompletedProcess[str] | None:
    """This file in a process of its own; None if it was not done in time."""
    try:
        return subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), "--side", *arguments],
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=max(1.0, limit),
        )
    except subprocess.TimeoutExpired:
        return None


def _lines(text: str) -> int:
    lines = (line.strip() for line in text.splitlines())
    return sum(1 for line in lines if line and not line.startswith("#"))


def _alone(text: str) -> bool:
    """Whether a file fails in an empty folder, and says why the right way."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "repro.py").write_text(text)
        done = subprocess.run(
            [sys.executable, "repro.py"], cwd=folder, capture_output=True, text=True, timeout=600
        )
    missing = re.search(r"No such file|ModuleNotFoundError|generat\w+ random", done.stderr)
    return done.returncode != 0 and not missing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "cases",
        nargs="*",
        help="relu/accuracy …, or names of reports; default: all six injected bugs",
    )
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for each")
    parser.add_argument("--both", action="store_true", help="torch's in process too")
    parser.add_argument("--side", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        side, *rest = args.side
        {"ours": ours, "fail": fail, "launch": lambda path, *_: launch(path)}[side](*rest)
        return 0
    for case in args.cases or [f"{bug}/{how}" for bug in BUGS for how in HOWS]:
        print(case, flush=True)
        rows: dict[str, Row] = {}
        for name, row in race(case, args.limit, args.both):
            rows[name] = row
            print(f"  {name:<18} {row}", flush=True)
        mine, theirs = rows["fullgraph"], rows["torch, isolated"]
        if mine.calls and theirs.calls:
            print(
                f"  {'ratio':<18} {mine.calls / theirs.calls:.2f} of the calls, "
                f"{mine.seconds / theirs.seconds:.2f} of the time",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
