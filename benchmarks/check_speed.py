"""Time of `fullgraph check`, cold and warm, beside `ast.parse` and ruff on the same files.

python benchmarks/check_speed.py [FOLDER] [--jobs N] [--edits]    prints one table as Markdown

FOLDER holds the files `modeling_*.py`; by default it is that of the installed transformers.
"""

from __future__ import annotations

import argparse
import ast
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from importlib import metadata, util
from io import StringIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fullgraph.rewrites.check import check, usable_cpus
from fullgraph.rewrites.check.sources import no_garbage_collection


def parse_all(files: list[str]) -> None:
    """Parse files and throw the trees away."""
    with no_garbage_collection():
        for file in files:
            ast.parse(Path(file).read_bytes())


def seconds(run: Callable[[], object]) -> float:
    """Return the wall time of a call."""
    start = time.perf_counter()
    with redirect_stdout(StringIO()):
        run()
    return time.perf_counter() - start


def parse_in_parts(files: list[str], jobs: int) -> float:
    """Return the wall time of `ast.parse` on all files in `jobs` processes."""
    parts = [files[number::jobs] for number in range(jobs)]
    with ProcessPoolExecutor(jobs) as pool:
        list(pool.map(parse_all, [[]] * jobs))
        return seconds(lambda: list(pool.map(parse_all, parts)))


def main(arguments: list[str]) -> None:
    """Measure once and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--jobs", type=int, default=usable_cpus())
    parser.add_argument("--edits", action="store_true", help="measure the search for edits too")
    args = parser.parse_args(arguments)
    if args.folder is None:
        found = util.find_spec("transformers")
        assert found is not None and found.origin is not None
        args.folder = str(Path(found.origin).parent / "models")
    files = sorted(map(str, Path(args.folder).rglob("modeling_*.py")))
    cache = Path(tempfile.mkdtemp())
    try:
        parsed = parse_in_parts(files, args.jobs)
        rows = [("`ast.parse`", parsed)]
        for run in ("cold", "warm", "warm, with edits, none stored yet", "warm, with edits"):
            edits = "edits" in run
            if args.edits or not edits:
                taken = seconds(
                    lambda edits=edits: check(files, jobs=args.jobs, cache=cache, fixes=edits)
                )
                rows.append((f"`check`, {run}", taken))
        result = check(files, jobs=args.jobs, cache=cache, fixes=args.edits)
    finally:
        shutil.rmtree(cache)
    ruff = Path(sys.executable).with_name("ruff")
    if ruff.exists():
        command = [str(ruff), "check", "--no-cache", "--quiet", "--exit-zero", "--isolated", *files]
        environment = {**os.environ, "RAYON_NUM_THREADS": str(args.jobs)}
        options = {"capture_output": True, "env": environment, "check": True}
        rows.append(("`ruff check`, cold", seconds(lambda: subprocess.run(command, **options))))
    print(
        f"{len(files)} files, {sum(map(os.path.getsize, files)) / 1e6:.1f} MB, of transformers "
        f"{metadata.version('transformers')}; {args.jobs} processes, Python "
        f"{platform.python_version()}. {len(result.findings)} findings, "
        f"{len(result.unreadable)} files not read.\n"
    )
    print("| run | seconds | times `ast.parse` |\n| --- | ---: | ---: |")
    for name, taken in rows:
        print(f"| {name} | {taken:.2f} | {taken / parsed:.1f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
