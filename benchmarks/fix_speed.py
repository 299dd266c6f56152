"""What `fix` costs beside another checkout: six transformers models that break a graph.

    python benchmarks/fix_speed.py BEFORE [--only PART] [--repeats 1] [--profile] [--same]

BEFORE is the path of a checkout of an older commit. Each measurement is a fresh process that
imports one of the two checkouts; the sides alternate, and every number is the median of the
repeats. *cpu* is the CPU time of `fix` with its forked children, *wall* its wall time, *forks* the
forked children, *traces* the frames that Dynamo begins, *recorded* the runs whose behaviour the
proofs record, *inductor* the graphs that Inductor compiles. The table goes to
benchmarks/results/fix-speed-<commit>.md. `--profile` prints the wall time of each step too.
*outcome* says whether both sides accept the same edits with the same proofs: an older commit has
fewer rules, and may differ. With `--same` the exit code is 1 where it does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from functools import partial
from math import exp, log
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MODELS = (
    "LongformerModel",
    "LEDModel",
    "ViltModel",
    "ReformerModel",
    "GPT2LMHeadModel (train)",
    "Wav2Vec2ForCTC (train)",
)
REFORMER = {
    "vocab_size": 128,
    "hidden_size": 32,
    "num_attention_heads": 2,
    "attention_head_size": 16,
    "feed_forward_size": 64,
    "attn_layers": ["local", "lsh"],
    "axial_pos_embds": False,
    "max_position_embeddings": 64,
    "lsh_attn_chunk_length": 8,
    "local_attn_chunk_length": 8,
    "num_buckets": 4,
    "is_decoder": False,
}
COUNTS = ("cpu", "wall", "forks", "traces", "recorded", "inductor")
SECONDS = 900.0
"""Time limit of `fix`: no outcome may depend on how busy the machine is."""


def measure(name: str) -> dict[str, Any]:
    """Run `fix` on one model in this process; return times, counts, steps and outcome."""
    import torch

    from fullgraph import fix

    model, args, kwargs = _build(name)
    with tempfile.TemporaryFile() as tally:
        _count_runs(tally.fileno())
        steps: list[tuple[str, float]] = []
        torch.manual_seed(0)
        cpu, wall = cpu_seconds(), perf_counter()
        fixes = fix(
            model,
            args,
            kwargs=kwargs,
            seconds=SECONDS,
            progress=lambda step: steps.append((step.what, step.seconds)),
        )
        wall = perf_counter() - wall
        with contextlib.suppress(ChildProcessError):  # children are reaped in threads
            while os.waitpid(-1, 0):
                pass
        cpu = cpu_seconds() - cpu
        tally.seek(0)
        counts = Counter(tally.read().decode())
    times = [seconds for _, seconds in steps] + [wall]
    phases: Counter[str] = Counter()
    for (what, start), end in zip(steps, times[1:], strict=True):
        phases[what.partition(" FG")[0]] += end - start
    return {
        "cpu": cpu,
        "wall": wall,
        "forks": counts["f"],
        "traces": counts["t"],
        "recorded": counts["r"],
        "inductor": counts["i"],
        "phases": phases,
        "outcome": outcome_of(fixes.to_dict()),
        "result": fixes.to_dict(),
    }


def outcome_of(result: dict[str, Any]) -> list[Any]:
    """Return what must be equal on both sides: the edits with their proofs, and what they give."""
    made = [
        [s["rule"], Path(s["file"]).name, s["line"], s["proof"]["state"], s.get("accepted")]
        for s in result["suggestions"]
    ]
    return [made, result["before"], result["after"], result["after_unsafe"]]


def _build(name: str) -> Any:
    """Return a model with its inputs, the same in every process."""
    from benchmarks.models import hugging_face
    from benchmarks.models.entry import Entry

    ids = partial(hugging_face._ids, 32)
    row = ("ReformerModel", REFORMER, lambda: {"input_ids": ids()}, False)
    reformer = Entry("transformers", "ReformerModel", partial(hugging_face._build, *row))
    (entry,) = (e for e in (*hugging_face.ENTRIES, reformer) if e.name == name)
    return entry.build()


def _count_runs(tally: int) -> None:
    """Write a letter to the file `tally` for each fork and run, in forked children too."""
    import torch._dynamo.symbolic_convert as symbolic_convert
    import torch._inductor.compile_fx as compile_fx

    import fullgraph.rewrites.proof

    package = f"{fullgraph.rewrites.proof.__name__}."
    proofs = [one for name, one in sys.modules.items() if name.startswith(package)]
    os.register_at_fork(after_in_parent=lambda: os.write(tally, b"f"))
    for owner, name, letter in (
        (symbolic_convert.InstructionTranslator, "run", b"t"),
        (compile_fx, "compile_fx_inner", b"i"),
        *((one, "record_behaviour", b"r") for one in proofs if hasattr(one, "record_behaviour")),
    ):
        setattr(owner, name, _counted(getattr(owner, name), tally, letter))


def _counted(function: Any, tally: int, letter: bytes) -> Any:
    """Return `function` such that each call writes a letter first."""

    def count(*args: Any, **kwargs: Any) -> Any:
        """Write the letter, and call the function."""
        os.write(tally, letter)
        return function(*args, **kwargs)

    return count


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def run_child(root: Path, name: str) -> dict[str, Any]:
    """Measure one model in a process of its own, with the checkout at `root`."""
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    # both sides run this file and these models, and each its own fullgraph
    environment = {**os.environ, **threads, "PYTHONPATH": str(root)}
    command = [sys.executable, __file__, str(root), "--child", name]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root)
    if done.returncode:
        raise SystemExit(f"{name} at {root}:\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def table(rows: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """Return before → after and the ratio for each model, in markdown."""
    lines = [f"| model | {' | '.join(COUNTS)} | outcome |", f"| --- |{' ---: |' * 6} --- |"]
    ratios: dict[str, list[float]] = {name: [] for name in COUNTS}
    for model, (before, after) in rows.items():
        cells = []
        for name in COUNTS:
            old, new = before[name], after[name]
            if old and new:
                ratios[name].append(new / old)
            ratio = f" ({new / old:.2f})" if old else ""
            cells.append(f"{old:.0f} → {new:.0f}{ratio}")
        same = "same" if before["outcome"] == after["outcome"] else "differs"
        lines.append(f"| {model} | {' | '.join(cells)} | {same} |")
    means = [f"{exp(sum(map(log, r)) / len(r)):.2f}" if r else "" for r in ratios.values()]
    lines.append(f"| geometric mean | {' | '.join(means)} | |")
    return "\n".join(lines)


def main() -> int:
    """Measure what was chosen; the exit code is what the module's docstring says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, help="checkout of the older commit")
    parser.add_argument("--only", default="", metavar="PART", help="models with this in their name")
    parser.add_argument("--repeats", type=int, default=1, metavar="N")
    parser.add_argument("--profile", action="store_true", help="print the time of each step")
    parser.add_argument("--same", action="store_true", help="fail if an outcome differs")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        sys.path.append(str(ROOT))
        print(json.dumps(measure(options.child)))
        return 0
    rows = {}
    for model in (name for name in MODELS if options.only in name):
        sides: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
        for repeat in range(options.repeats):
            for side in (0, 1) if repeat % 2 == 0 else (1, 0):
                sides[side].append(run_child((options.before.resolve(), ROOT)[side], model))
        joined = []
        for runs in sides:
            middle = {count: median(run[count] for run in runs) for count in COUNTS}
            joined.append({**runs[0], **middle})
        rows[model] = (joined[0], joined[1])
        print(table({model: rows[model]}).splitlines()[2], flush=True)
        for one in joined if options.profile else ():
            print("   ", {what: round(s, 1) for what, s in Counter(one["phases"]).most_common()})
    git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    report = table(rows)
    if not options.only:
        (ROOT / "benchmarks" / "results" / f"fix-speed-{commit}.md").write_text(f"{report}\n")
    print(report)
    same = all(old["outcome"] == new["outcome"] for old, new in rows.values())
    return 1 if options.same and not same else 0


if __name__ == "__main__":
    sys.exit(main())
