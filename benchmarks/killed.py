"""Whether `fix` goes on after kills, and what they cost.

    python benchmarks/killed.py [--only PART] [--kills 10]

Each program is fixed undisturbed, and then killed at random moments and started again, with one
cache folder, until it ends. Both must end with the same fixes. *cpu* is the CPU time of all starts
with their children, without the time until the first step begins; the ratio of the two may be 1.3
at most. The exit code is 1 if it is more, or if the fixes differ.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
MODELS = ("GPT2LMHeadModel (train)", "LongformerModel", "ViltModel")
RATIO = 1.3
_PR_SET_CHILD_SUBREAPER = 36


def run_fix(name: str, folder: str) -> None:
    """Fix one model with a cache folder; print the CPU time at the first step, then the outcome."""
    from benchmarks.fix_speed import SECONDS, _build, outcome_of
    from fullgraph import fix

    model, args, kwargs = _build(name)
    steps: list[object] = []

    def note(step: object) -> None:
        if not steps:
            print(json.dumps(time.process_time()), flush=True)
        steps.append(step)

    fixes = fix(model, args, kwargs=kwargs, seconds=SECONDS, cache=folder, progress=note)
    print(json.dumps(outcome_of(fixes.to_dict())), flush=True)


def start(name: str, folder: str, kill_after: float | None) -> tuple[float, float, Any]:
    """Run `run_fix` in a process of its own, killed so many seconds after the first step began.

    Returns the CPU time and the wall time from there on, and the outcome, None if it was killed.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--child", name, folder]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=variables, cwd=ROOT, start_new_session=True
    )
    assert child.stdout is not None
    idle, begun, outcome = json.loads(child.stdout.readline()), time.monotonic(), ""
    try:
        outcome = child.communicate(timeout=kill_after)[0]
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGKILL)
        child.wait()
    wall = time.monotonic() - begun
    while True:  # its children are ours now
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime - idle
    return cpu, wall, json.loads(outcome) if outcome else None


def main() -> int:
    """Kill what was chosen; the exit code is what the module's docstring says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="PART", help="models with this in their name")
    parser.add_argument("--kills", type=int, default=10, metavar="N")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_fix(*options.child)
        return 0
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    chance, bad = random.Random(47), 0
    print("| model | undisturbed | with kills | ratio | kills | fixes |")
    print("| --- | ---: | ---: | ---: | ---: | --- |", flush=True)
    for name in (one for one in MODELS if options.only in one):
        with tempfile.TemporaryDirectory() as folder:
            whole, wall, wanted = start(name, folder, None)
        with tempfile.TemporaryDirectory() as folder:
            spent, kills, found = 0.0, 0, None
            while found is None:
                # so that all kills together take as long as the undisturbed run
                moment = chance.uniform(0, 2 * wall / options.kills)
                cpu, _, found = start(name, folder, moment if kills < options.kills else None)
                spent, kills = spent + cpu, kills + (found is None)
        same = found == wanted
        bad += not same or spent > RATIO * whole
        cells = f"{whole:.0f} s | {spent:.0f} s | {spent / whole:.2f} | {kills}"
        print(f"| {name} | {cells} | {'same' if same else 'differ'} |", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
