"""Every test with nothing replayed or left out, all golden data, and another torch, in one command.

    make nightly [CORPORA=1]

Each part runs once on a commit: after an interruption the same command goes on with the tests and
cases that have not passed. A part that fails ends the run with exit code 1, and runs again the next
time. What passed on an earlier commit also counts if only tests and golden data have changed since:
then the tests that these belong to run again, and the answers of all cases are compared again.
If all parts are green, the commit and the minutes of each part are written to
benchmarks/results/nightly.md, and the files that golden cases and tests executed to
tests/recorded/executed*.json: commit both. The exit code is 2 if files differ from the commit.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "benchmarks" / "results" / "nightly.md"
WRITTEN = "tests/recorded/executed", "benchmarks/results/"
"""Beginnings of the paths that this command writes."""
BELONGS = (
    (r"tests/(.*/)?test_\w+\.py", r"\g<0>"),
    (r"(tests/.*)recorded/(\w+)\.json", r"\1test_\2.py"),
    (r"(tests/.+/)conftest\.py", r"\1"),
    (r"benchmarks/golden/(rules|examples)\.json", "tests/test_golden.py"),
    (r"benchmarks/(nightly\.py|golden/(models|bugs)\.json)", "tests/test_recorded.py"),
)
"""Paths, and the beginnings of the names of the tests that a change there touches."""
CORPORA = (
    ("benchmarks/zoo.py",),
    ("benchmarks/fix_zoo.py",),
    ("benchmarks/field.py",),
    ("benchmarks/reports.py",),
    ("benchmarks/minify.py",),
    ("benchmarks/guarded.py",),
    ("-m", "benchmarks.opdb.score"),
    ("-m", "benchmarks.loops.models"),
    ("-m", "benchmarks.loops.bugs"),
    ("-m", "benchmarks.loops.batches"),
    ("-m", "benchmarks.fuzz_loops"),
)


@dataclass(frozen=True)
class Part:
    """One command of a nightly run."""

    name: str
    command: tuple[str, ...]
    codes: tuple[int, ...] = (0,)
    """Exit codes with which it is done."""


def parts(folder: Path, torch: str, any_torch: list[str], corpora: bool) -> list[Part]:
    """Return the commands of a run that keeps what has passed in `folder`."""
    here, there = sys.executable, f".venv-{torch}/bin/python"
    pytest = ("-m", "pytest", "-n", "2", "--dist", "worksteal")
    answers = str(folder / "golden.jsonl")
    cases = ("--only", "models/", "--only", "bugs/", "--only", "examples/command")  # not tests

    def tests(name: str, python: str, *options: str) -> list[Part]:
        """All tests, noting what they execute, then untraced those that have not passed."""
        resumed = (python, *pytest, "--resume", str(folder / name), *options)
        notes = ("--executed", str(folder / f"executed-{name}"))
        return [Part(name, (*resumed, *notes), (0, 1)), Part(f"{name}, untraced", resumed, (0, 5))]

    found = [
        Part("lint", ("make", "lint")),
        *tests("tests", here, "--recorded=check"),
        Part(
            "golden data",
            (here, "benchmarks/golden.py", "compare", "--resume", "--answers", answers, *cases),
        ),
        *tests(f"torch {torch}", there, *any_torch),
    ]
    if corpora:
        found += [Part(command[-1], (here, *command)) for command in CORPORA]
    return found


class Progress:
    """The parts that are done on a commit, and the seconds that each took in all its runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        data = json.loads(path.read_text()) if path.exists() else {}
        self.seconds: dict[str, float] = data.get("seconds", {})
        self.done: list[str] = data.get("done", [])

    def add(self, name: str, seconds: float, passed: bool) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        self.done += [name] if passed else []
        self._path.write_text(json.dumps({"seconds": self.seconds, "done": self.done}))


def run(commit: str, todo: list[Part], progress: Progress) -> int:
    """Run the parts that are not done; return the exit code."""
    for part in todo:
        if part.name in progress.done:
            print(f"{part.name}: done before", flush=True)
            continue
        print(f"{part.name}: {' '.join(part.command)}", flush=True)
        start, code = monotonic(), None
        try:
            code = subprocess.run(part.command, cwd=ROOT).returncode
        finally:
            progress.add(part.name, monotonic() - start, code in part.codes)
        if code not in part.codes:
            print(f"{part.name} failed; `make nightly` goes on with what has not passed")
            return 1
    REPORT.write_text(report(commit, todo, progress))
    print(f"green: {REPORT.relative_to(ROOT)}")
    return 0


def take_over(folder: Path, earlier: Path, changed: list[str]) -> bool:
    """Copy what passed on an earlier commit into `folder` if `changed` holds only parts of tests.

    Those are test modules, what is recorded for them, conftest.py, golden data and this command.
    The answers of cases are copied whole: they are compared with the data.
    """
    again: list[str] = []
    for path in changed:
        found = ((re.fullmatch(pattern, path), to) for pattern, to in BELONGS)
        belonging = [match.expand(to) for match, to in found if match]
        if not belonging and not path.startswith(WRITTEN):
            return False
        again += belonging
    shutil.copytree(earlier, folder, dirs_exist_ok=True)
    if (parts := folder / "parts.json").exists():  # each part runs again, and its time adds up
        parts.write_text(json.dumps({"seconds": json.loads(parts.read_text())["seconds"]}))
    for journal in folder.glob("*/passed.txt"):
        passed = journal.read_text().splitlines(keepends=True)
        journal.write_text("".join(one for one in passed if not one.startswith(tuple(again))))
    return True


def report(commit: str, done: list[Part], progress: Progress) -> str:
    """Return the text of `nightly.md`."""
    rows = [f"| {part.name} | {progress.seconds[part.name] / 60:.0f} |" for part in done]
    lines = ["# Nightly", "", f"Last green on {commit}.", "", "| part | minutes |", "| --- | --- |"]
    return "\n".join([*lines, *rows, ""])


def git(*arguments: str) -> str:
    command = ("git", *arguments)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--torch", default="2.15.0", help="the other torch")
    parser.add_argument(
        "--corpora", action="store_true", help="run the corpora of benchmarks/, too"
    )
    parser.add_argument("any_torch", nargs="+", metavar="TESTS", help="tests for the other torch")
    options = parser.parse_args()
    changed = [line[3:] for line in git("status", "--porcelain").splitlines()]
    if changed := [path for path in changed if not path.startswith(WRITTEN)]:
        print(f"{changed[0]} differs from the commit: commit it first", file=sys.stderr)
        return 2
    commit = git("rev-parse", "--short", "HEAD").strip()
    folder = ROOT / "build" / "nightly" / commit
    if not folder.exists():
        others = sorted(folder.parent.glob("*"), key=lambda path: path.stat().st_mtime)
        folder.mkdir(parents=True)
        if others and take_over(
            folder, others[-1], git("diff", "--name-only", others[-1].name, commit).splitlines()
        ):
            print(f"going on from {others[-1].name}", flush=True)
    todo = parts(folder, options.torch, options.any_torch, options.corpora)
    try:
        return run(commit, todo, Progress(folder / "parts.json"))
    except KeyboardInterrupt:
        print("interrupted; run it again to go on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
