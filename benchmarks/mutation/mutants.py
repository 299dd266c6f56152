"""Mutation test: small faults in the source, each run against the nearest tests of its file.

    python -m benchmarks.mutation.mutants draw rewrites/rules=40 compiler=20 … [--seed 0]
    python -m benchmarks.mutation.mutants run [--tree PATH]…

`draw` writes mutants to benchmarks/results/mutants.jsonl, as many of each folder as is said. A
mutant edits one line in the body of a function, a line that its folder has once. `--also PATH`
draws from lines that a second checkout has, too, so that `run --tree . --tree PATH` compares the
tests of both.

`run` applies one mutant at a time to a copy of the checkout and adds a line to
benchmarks/results/mutants-<commit>.jsonl, so an interrupted run resumes. A second tree is asked
about the mutants that survive the first: did its tests kill them? At most forty tests that cover
the file (`covering_tests`) run until one fails, those that `make test` would run; a test that hangs
fails. At the end the tests that killed run on the source as it is: one that fails there kills
nothing. benchmarks/results/mutants.json says what killed which mutant.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import tempfile
from itertools import zip_longest
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.mutation import covering_tests
from benchmarks.mutation.forked_pytest import run_forked
from benchmarks.mutation.mutations import draw, single_lines

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
MUTANTS, SUMMARY = RESULTS / "mutants.jsonl", RESULTS / "mutants.json"
HANGS = 200
"""Seconds after which a test hangs."""


class Copy:
    """A copy of a checkout's committed files in which one line at a time is another."""

    def __init__(self, tree: Path, root: Path) -> None:
        self.root = root
        self.commit = _git(tree, "rev-parse", "--short", "HEAD").strip()
        self.path = RESULTS / f"mutants-{self.commit}.jsonl"
        self.answers = {(row["before"], row["after"]): row for row in _read(self.path)}
        for name in filter(None, _git(tree, "ls-files", "-z").split("\0")):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / name, root / name, follow_symlinks=False)
        plugin = Path(covering_tests.__file__)
        (root / "benchmarks" / "mutation").mkdir(exist_ok=True)
        for file in (plugin, plugin.with_name("__init__.py")):
            shutil.copy2(file, root / file.relative_to(ROOT))
        self.tests = covering_tests.CoveringTests(root)
        leaves_out = (root / "tests" / "session.py").exists()
        self.options = ["--changed", "--recorded=sample"] if leaves_out else []

    def run(self, mutant: dict[str, Any]) -> dict[str, Any]:
        """Run the tests on a mutant."""
        single = single_lines(self.root / mutant["file"].partition("/")[0])
        if mutant["before"] not in single:
            return {"killed": None, "by": "the line is not in this tree"}
        path, number = single[mutant["before"]]
        file, text, start = str(path.relative_to(self.root)), path.read_text(), monotonic()
        lines = text.splitlines(keepends=True)
        lines[number] = lines[number].replace(mutant["before"], mutant["after"])
        tests = self.tests.covering(file)
        path.write_text("".join(lines))
        try:
            failed, timed_out = self.pytest("-x", *tests) if tests else ([], False)
        finally:
            path.write_text(text)
        by = failed[0] if failed else "(time limit)" if timed_out else None
        tried = {"file": file, "line": number + 1, "killed": by is not None, "by": by}
        return {**tried, "seconds": round(monotonic() - start), "tests": tests}

    def check(self) -> None:
        """Withdraw the verdicts of tests that fail on the source as it is."""
        tests = sorted({row["by"] for row in self.answers.values() if "::" in (row["by"] or "")})
        some = (
            tests[n : n + covering_tests.MOST] for n in range(0, len(tests), covering_tests.MOST)
        )
        failing = {test for part in some for test in self.pytest(*part)[0]}
        for row in self.answers.values():
            if row["by"] in failing:
                row |= {"killed": None, "by": f"{row['by']}, which fails anyway"}

    def pytest(self, *arguments: str) -> tuple[list[str], bool]:
        """The tests that fail, and whether the run had to be stopped."""
        command = ["--hypothesis-seed=0", "--tb=no", "-p", "no:cacheprovider"]
        command += ["-p", "benchmarks.mutation.covering_tests", f"--timeout={HANGS}"]
        code, output = run_forked(self.root, [*command, *self.options, *arguments], 40 * HANGS)
        failed = re.findall(f"^{covering_tests.FAILED}(.+)$", output, re.MULTILINE)
        if code in (3, 4):  # pytest itself is at fault, or its arguments
            raise RuntimeError(f"{' '.join(arguments)}\n{output}")
        if code is not None and code < 0:
            failed = [f"(signal {-code})"]
        return failed, code is None


def run(trees: list[Path]) -> None:
    """Run the mutants that have no answer yet, then check the tests that killed."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        numbered = [(tree.resolve(), Path(folder, str(n))) for n, tree in enumerate(trees)]
        copies = [Copy(tree, root) for tree, root in numbered]
        for mutant in _read(MUTANTS):
            edit = mutant["before"], mutant["after"]
            for copy in copies:
                if edit not in copy.answers:
                    copy.answers[edit] = mutant | copy.run(mutant)
                    _write(copy.path, [*copy.answers.values()])
                    _show(copy.commit, copy.answers[edit])
                if copy.answers[edit]["killed"]:
                    break
        for copy in copies:
            copy.check()
            _write(copy.path, [*copy.answers.values()])
            verdicts = [row["killed"] for row in copy.answers.values()]
            print(f"{copy.commit}: {verdicts.count(True)} of {len(verdicts)} killed")
    SUMMARY.write_text(json.dumps(summary(copies), indent=1, ensure_ascii=False) + "\n")


def summary(copies: list[Copy]) -> dict[str, Any]:
    """What killed each mutant in each checkout, by commit."""
    killed = {
        copy.commit: sum(row["killed"] is True for row in copy.answers.values()) for copy in copies
    }
    rows = [
        {name: row[name] for name in ("file", "line", "kind", "before", "after")}
        | {
            "killed by": {
                one.commit: one.answers[edit]["by"] for one in copies if edit in one.answers
            }
        }
        for edit, row in copies[0].answers.items()
    ]
    return {"mutants": len(rows), "killed": killed, "rows": rows}


def _show(commit: str, row: dict[str, Any]) -> None:
    verdict = {True: "killed", False: "SURVIVED", None: "?"}[row["killed"]]
    print(f"{commit} {verdict} {row['file']}:{row['line']} {row['kind']} ({row.get('seconds')} s)")
    print(f"    - {row['before']}\n    + {row['after']}\n    {row['by'] or ''}", flush=True)


def _git(tree: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(tree), *arguments], check=True, capture_output=True, text=True
    ).stdout


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw", help="draw mutants")
    drawing.add_argument("folders", nargs="+", metavar="FOLDER=COUNT")
    drawing.add_argument("--seed", type=int, default=0)
    drawing.add_argument("--also", type=Path, help="draw from lines that this checkout has, too")
    running = commands.add_parser("run", help="run tests on the mutants")
    running.add_argument("--tree", type=Path, action="append", help="a checkout to test")
    options = parser.parse_args()
    if options.command == "run":
        return run(options.tree or [ROOT])
    drawn = [
        draw(ROOT, folder, options.also, int(count), options.seed)
        for folder, _, count in (one.partition("=") for one in options.folders)
    ]
    mutants = [mutant for group in zip_longest(*drawn) for mutant in group if mutant]
    _write(MUTANTS, mutants)
    print(f"{len(mutants)} mutants: {MUTANTS}")


if __name__ == "__main__":
    main()
