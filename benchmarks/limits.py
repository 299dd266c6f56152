"""Whether explain, fix, bisect and minify keep their time limit, on a busy machine.

    python benchmarks/limits.py [--only PART] [--limits 15 45 120] [--busy 8]

Each run is a fresh process beside BUSY busy loops. The clock starts when the model is built. *over*
is how far the run went past its limit, in percent, and *cpu* the CPU seconds that it and its
children used from 10 % past it on: at most 3 s are allowed, which take long on a busy machine.
*left* are the children that live on. What was found must be a subset of what a run without a limit
finds on the idle machine, which runs first; the last column tells what is not. The table goes to
benchmarks/results/limits-<commit>.md, and the exit code is 1 if a run breaks one of these rules.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.fix_speed import cpu_seconds  # noqa: E402

MODELS = (
    "ViltModel",
    "LongformerModel",
    "ReformerModel",
    "GPT2LMHeadModel (train)",
    "Wav2Vec2ForCTC (train)",
    "LEDModel",
)
FAULTS = {
    "flipped product": """
def f(x):
    y = x.sin().cumsum(0)
    return torch.where(y > 0, y, -y).flip(0) @ x
""",
    "repeated softmax": """
def f(x):
    for _ in range(6):
        x = torch.softmax(x @ x, 0) + x.mean()
    return x
""",
    "sorted rows": """
def f(x):
    y, i = (x * 3).sort(0)
    return y.gather(0, i) + x.cos().tan()
""",
}
"""Programs of which the backend below gets the sign of one operator wrong."""
OVER, CPU = 0.10, 3.0


def wrong_sign(graph: Any, inputs: Any) -> Any:
    """A backend that computes the last function call of a graph with the wrong sign."""
    import torch

    calls = [node for node in graph.graph.nodes if node.op.startswith("call")]
    with graph.graph.inserting_after(calls[-1]):
        negative = graph.graph.call_function(torch.neg, (calls[-1],))
    calls[-1].replace_all_uses_with(negative, lambda user: user is not negative)
    graph.recompile()
    return graph.forward


def answer(command: str, name: str, limit: float | None) -> dict[str, Any]:
    """Build the program, run the command on it, and return what it found and what it cost."""
    import torch

    import fullgraph

    call = getattr(fullgraph, command)  # which imports it: only the command is timed
    if name in FAULTS:
        file = Path(tempfile.mkdtemp()) / "program.py"
        file.write_text(f"import torch\n\n{FAULTS[name]}")
        program: Any = (runpy.run_path(str(file))["f"], torch.randn(8, 8), {})
    else:
        from benchmarks.fix_speed import _build

        program = _build(name)
    model, inputs, kwargs = program
    start = time.monotonic()
    end: list[float] = []
    if limit is not None:
        timer = threading.Timer((1 + OVER) * limit, lambda: end.append(_cpu_seconds()))
        timer.daemon = True
        timer.start()
    if command == "explain":
        found = call(model, inputs, kwargs=kwargs, seconds=limit)
        facts = [["cause", Path(c.position.file).name, c.position.line] for c in found.causes]
        text = found.text()
    elif command == "fix":
        fixes = call(model, inputs, kwargs=kwargs, seconds=limit or 3600)
        facts = [
            [s.rule, Path(s.file).name, s.line, s.proof.state.value]
            for s in fixes.suggestions
            if s.proof.state.value != "time was up"
        ]
        text = str(fixes)
    else:
        done = call(model, inputs, backend=wrong_sign, budget=limit)
        facts, text = [["verdict", str(done.verdict).partition(";")[0]]], str(done)
    over = time.monotonic() - start - (limit or 0)
    cpu = _cpu_seconds() - end[0] if end else 0.0
    listing = ["ps", "--ppid", str(os.getpid()), "-o", "stat=,args="]
    children = subprocess.run(listing, capture_output=True, text=True, check=False).stdout
    left = [line for line in children.splitlines() if "ps --ppid" not in line and line[0] != "Z"]
    return {"facts": facts, "over": over, "cpu": cpu, "left": left, "first": text[:200]}


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and its children, those that still run included."""
    parents, ticks = {os.getpid()}, 0
    stats = sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda path: int(path.parts[2]))
    for path in stats:
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) in parents:
                parents.add(int(path.parts[2]))
                ticks += sum(map(int, fields[11:15]))
    return cpu_seconds() + ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def busy(number: int) -> Iterator[None]:
    """Run so many busy loops beside the block."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run_child(command: str, name: str, limit: float | None) -> dict[str, Any]:
    """Run one command in a process of its own."""
    line = [sys.executable, __file__, "--child", command, name, "" if limit is None else str(limit)]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, capture_output=True, text=True, env=variables, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{command} {name} {limit}:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> int:
    """Run what was chosen; the exit code is what the module's docstring says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="PART", help="runs with this in their name")
    parser.add_argument("--limits", type=float, nargs="+", default=[15, 45, 120], metavar="S")
    parser.add_argument("--busy", type=int, default=8, metavar="N")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        command, name, limit = options.child
        print(json.dumps(answer(command, name, float(limit) if limit else None)))
        return 0
    runs = [(command, name) for command in ("explain", "fix") for name in MODELS]
    runs += [(command, name) for command in ("bisect", "minify") for name in FAULTS]
    rows, bad = (
        [
            "| run | limit | over | cpu | left | subset |",
            "| --- | ---: | ---: | ---: | ---: | --- |",
        ],
        0,
    )
    for command, name in runs:
        if options.only not in f"{command} {name}":
            continue
        whole = run_child(command, name, None)["facts"]
        for limit in options.limits:
            with busy(options.busy):
                found = run_child(command, name, limit)
            more = [fact for fact in found["facts"] if fact not in whole]
            over = max(0.0, found["over"]) / limit
            bad += bool(more or found["cpu"] > CPU or found["left"])
            cells = (
                f"{limit:.0f}",
                f"{over:.0%}",
                f"{found['cpu']:.1f}",
                found["left"],
                more or "",
            )
            rows.append(f"| {command} {name} | {' | '.join(map(str, cells))} |")
            print(rows[-1], flush=True)
    git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    if not options.only:
        path = ROOT / "benchmarks" / "results" / f"limits-{commit}.md"
        path.write_text("\n".join(rows) + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
