"""CPU time of `fullgraph check`, cold and warm, beside `ast.parse`, ruff and TorchFix.

python benchmarks/check_speed.py [FOLDER] [--jobs N] [--torchfix PROGRAM]    prints one table
python benchmarks/check_speed.py --plugin    tests that compile, with and without pytest's plugin

FOLDER holds the files `modeling_*.py`; by default it is that of the installed transformers.
TorchFix runs in an environment of its own, on one of 100 files: `python -m venv ENV &&
ENV/bin/pip install torchfix`, then `--torchfix ENV/bin/torchfix`. Times are user and system time
of all processes, the smallest of `--repeat` runs; the tools take turns.
"""

from __future__ import annotations

import argparse
import ast
import os
import platform
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from functools import partial
from importlib import metadata, util
from io import StringIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fullgraph.rewrites.check import check, usable_cpus
from fullgraph.rewrites.check.sources import no_garbage_collection

SAMPLE = 100
"""TorchFix runs on one of so many files."""
TESTS = """
import pytest
import torch
from torch import nn


MARK
@pytest.mark.parametrize("width", [8, 16, 24])
def test_a_step_of_training(width):
    model = nn.TransformerEncoderLayer(width, 2, 2 * width, batch_first=True)
    torch.compile(model)(torch.randn(2, 5, width)).square().mean().backward()
"""
"""Tests of which each compiles a model of its own under Inductor; MARK asks the plugin to watch."""
MARKS = {"watched": "@pytest.mark.fullgraph(breaks=0)", "not watched": "", "without the plugin": ""}
Run = Callable[[list[str]], object]


def parse_all(files: list[str]) -> None:
    """Parse files and throw the trees away."""
    with no_garbage_collection():
        for file in files:
            ast.parse(Path(file).read_bytes())


def parse_in_parts(files: list[str], jobs: int) -> None:
    """Parse files in `jobs` processes."""
    with ProcessPoolExecutor(jobs) as pool:
        list(pool.map(parse_all, [files[number::jobs] for number in range(jobs)]))


def run_program(command: list[str], files: list[str], **environment: str) -> None:
    """Run a program on files. Raises RuntimeError if it crashes; findings are no crash."""
    done = subprocess.run(
        [*command, *files], capture_output=True, text=True, env={**os.environ, **environment}
    )
    if done.returncode not in (0, 1) or "Traceback" in done.stderr:
        raise RuntimeError(f"{command[0]} failed: {done.stderr[-1000:]}")


def cpu_seconds(run: Callable[[], object]) -> float:
    """Return the user and system time of a call, with that of the processes it waits for."""

    def used() -> float:
        both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(one.ru_utime + one.ru_stime for one in both)

    start = used()
    with redirect_stdout(StringIO()):
        run()
    return used() - start


def tools(jobs: int, cache: Path, edits: bool, torchfix: str | None) -> dict[str, Run]:
    """Return a function of files for each column of the table, in the order in which they run."""
    found: dict[str, Run] = {
        "`ast.parse`": lambda files: parse_in_parts(files, jobs),
        "`check`, cold": lambda files: check(files, jobs=jobs, fixes=False),
        "`check`, warm": lambda files: check(files, jobs=jobs, cache=cache, fixes=False),
    }
    if edits:
        found["`check`, cold, with edits"] = lambda files: check(files, jobs=jobs)
    ruff = Path(sys.executable).with_name("ruff")
    if ruff.exists():
        command = [str(ruff), "check", "--no-cache", "--quiet", "--exit-zero", "--isolated"]
        found["ruff"] = lambda files: run_program(command, files, RAYON_NUM_THREADS=str(jobs))
    if torchfix is not None:
        fixing = [torchfix, "-j", str(jobs), "--select", "ALL"]
        found["TorchFix"] = lambda files: run_program(fixing, files)
    return found


def measure(runs: Mapping[str, Run], files: list[str], repeat: int) -> dict[str, float]:
    """Return the smallest CPU time of each run; the runs take turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeat):
        for name, run in runs.items():
            times[name].append(cpu_seconds(lambda run=run: run(files)))
    return {name: min(taken) for name, taken in times.items()}


def measure_plugin(repeat: int) -> None:
    """Print a table of the CPU time of tests that compile, with fresh caches in every run."""
    times: dict[str, list[float]] = {name: [] for name in MARKS}
    for _ in range(repeat):
        for name, mark in MARKS.items():
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "test_steps.py")
                path.write_text(TESTS.replace("MARK", mark))
                command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
                if name == "without the plugin":
                    command += ["-p", "no:fullgraph"]
                caches = {"TORCHINDUCTOR_CACHE_DIR": folder, "OMP_NUM_THREADS": "1"}
                run = partial(run_program, command, [str(path)], **caches)
                times[name].append(cpu_seconds(run))
    least = {name: min(taken) for name, taken in times.items()}
    print(f"torch {metadata.version('torch')}; CPU seconds, the smallest of {repeat} runs.\n")
    print("| three tests that compile | CPU s | ratio |\n| --- | ---: | ---: |")
    for name, seconds in least.items():
        print(f"| {name} | {seconds:.1f} | {seconds / least['without the plugin']:.3f} |")


def main(arguments: list[str]) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--jobs", type=int, default=usable_cpus())
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--edits", action="store_true", help="measure the search for edits too")
    parser.add_argument("--torchfix", metavar="PROGRAM", help="the program `torchfix`")
    parser.add_argument("--plugin", action="store_true", help="measure pytest's plugin")
    args = parser.parse_args(arguments)
    if args.plugin:
        measure_plugin(args.repeat)
        return
    if args.folder is None:
        found = util.find_spec("transformers")
        assert found is not None and found.origin is not None
        args.folder = str(Path(found.origin).parent / "models")
    files = sorted(map(str, Path(args.folder).rglob("modeling_*.py")))
    with tempfile.TemporaryDirectory() as cache:
        columns = tools(args.jobs, Path(cache), args.edits, args.torchfix)
        result = check(files, jobs=args.jobs, cache=cache, fixes=False)
        without = {name: run for name, run in columns.items() if name != "TorchFix"}
        rows = [(files, measure(without, files, args.repeat))]
        sample = files[::SAMPLE]
        rows.append((sample, measure(columns, sample, args.repeat)))
    megabytes = sum(map(os.path.getsize, files)) / 1e6
    print(
        f"transformers {metadata.version('transformers')}, {megabytes:.1f} MB; {args.jobs} "
        f"processes, Python {platform.python_version()}. {len(result.findings)} findings, "
        f"{len(result.unreadable)} files not read. CPU seconds, and times `ast.parse`.\n"
    )
    print(f"| files | {' | '.join(columns)} |\n| ---: |{' ---: |' * len(columns)}")
    for these, times in rows:
        parsed = times["`ast.parse`"]
        cells = [f"{times[n]:.2f} ({times[n] / parsed:.1f})" if n in times else "" for n in columns]
        print(f"| {len(these)} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
