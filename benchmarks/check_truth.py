"""Compare `check`, which runs nothing, with what `explain` finds in a run.

    python benchmarks/check_truth.py [--only PART] [--sources field nested …] [--half dev]
    python benchmarks/check_truth.py --compare        the table alone, from the saved truth
    python benchmarks/check_truth.py --recompiles     of programs that are called several times

The truth of each program is added to benchmarks/results/check-truth-<torch version>.jsonl as it
comes: the causes of either mode, and the lines that ran in eager. An interrupted run goes on where
it stopped. `check` then reads the same files.

*Precision*: of the findings on lines that ran, how many lie at a cause. *Recall*: of the causes on
lines that ran, at how many a finding lies. A finding lies at a cause if their lines overlap, those
of the cause's calls included. Code for float16 does not run. The programs are halved by the digest
of their names: `held` is for the end. What counts as found for recompiles, `recompile_truth.py`
says.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import linecache
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.models.entry import Built, Entry
    from fullgraph.rewrites.check import CheckResult, Finding

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import recompile_truth

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
_MODULES = {
    "fix_models": "benchmarks.fix_models",
    "zoo": "benchmarks.models",
    "nested": "benchmarks.nested",
}
SOURCES = ("field", *_MODULES)
BATCH = 20
"""Number of programs that are called several times in one process."""


def entries_of(source: str) -> dict[str, Entry]:
    """Return the entries of a source other than the field corpus, by name."""
    entries: dict[str, Entry] = import_module(_MODULES[source]).ENTRIES
    return entries


def names_of(source: str) -> list[str]:
    """Return the names of the programs of a source; held-out situations are left out."""
    if source == "field":
        from benchmarks.field import SITUATIONS

        return [f"field:{n}" for n, s in SITUATIONS.items() if s.kind == "break" and not s.held_out]
    return [f"{source}:{name}" for name in entries_of(source)]


def half_of(name: str) -> str:
    """Return "dev" or "held" for a program."""
    return "held" if hashlib.sha1(name.encode()).digest()[0] & 1 else "dev"


def build(name: str) -> Built:
    """Build a program by its name."""
    source, _, key = name.partition(":")
    if source == "field":
        from benchmarks.field import SITUATIONS

        program, inputs, _ = SITUATIONS[key].build()
        return program, inputs, {}
    return entries_of(source)[key].build()


def truth_of(name: str) -> dict[str, Any]:
    """Explain a program; return its causes and the lines that ran, as JSON data."""
    from fullgraph.diagnose.explain import explain

    program, args, kwargs = build(name)
    copied, *call = copy.deepcopy((program, args, kwargs))
    lines = executed_lines(copied, [tuple(call)])
    explained = explain(program, args, kwargs=kwargs, seconds=60)
    causes = [
        {
            "category": str(cause.category),
            "modes": list(cause.modes),
            "hidden": cause.hidden,
            "expression": cause.expression,
            "places": [
                [p.file, p.line, p.end_line or p.line] for p in (cause.position, *cause.stack)
            ],
        }
        for cause in explained.causes
    ]
    is_found = hasattr(program, "forward") or name.startswith("nested:")
    target = "" if is_found else getattr(program, "__qualname__", "")
    return {
        "name": name,
        "target": target,
        "error": explained.error,
        "causes": causes,
        "lines": {file: sorted(found) for file, found in lines.items()},
    }


def recompiles_of(name: str) -> dict[str, Any]:
    """Return the truth of a program that is called several times."""
    return recompile_truth.truth_of(
        name, lambda program, calls: executed_lines(program, [(call, {}) for call in calls])
    )


def executed_lines(
    program: Callable[..., Any], calls: Iterable[tuple[tuple[Any, ...], dict[str, Any]]]
) -> dict[str, set[int]]:
    """Return the lines that calls run, by file; torch, NumPy and Python are left out."""
    lines: dict[str, set[int]] = defaultdict(set)

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        file = frame.f_code.co_filename
        if not is_checked(file):
            return None
        lines[file].add(frame.f_lineno)
        return trace

    sys.settrace(trace)
    try:
        for args, kwargs in calls:
            program(*args, **kwargs)
    finally:
        sys.settrace(None)
    return lines


def is_checked(file: str) -> bool:
    """Return whether a file belongs to a program or its library."""
    outside = ("/torch/", "/numpy/", "/lib/python3.", "/fullgraph/", "<")
    inside = "/site-packages/" in file
    tail = file.rpartition("/site-packages/")[2] if inside else file
    if inside:
        return not tail.startswith(("torch/", "numpy/", "einops/", "tqdm/"))
    return not any(part in file for part in outside) or "/benchmarks/" in file


def measure(names: Iterable[str], path: Path, timeout: float, options: list[str]) -> None:
    """Add the truth of the programs that have none yet, each batch from a process of its own.

    `options` are those of the process, and `timeout` is that of a program.
    """
    known = {row["name"] for row in read(path)}
    left = [name for name in names if name not in known]
    size = BATCH if options else 1
    for batch in (left[n : n + size] for n in range(0, len(left), size)):
        command = [sys.executable, __file__, *options, "--truth", *batch]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        error, output = "no answer", ""
        try:
            limit = timeout * len(batch)
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, cwd=ROOT, env=environment
            )
            error, output = done.stderr.strip().rpartition("\n")[2], done.stdout
        except subprocess.TimeoutExpired as ended:
            error, output = "timeout", (ended.stdout or b"").decode()
        rows = [json.loads(line) for line in output.splitlines() if line.startswith('{"name"')]
        for name in batch:
            row = next((row for row in rows if row["name"] == name), failure(name, error))
            with path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")
            print(name, len(row["causes"]), row["error"] or "", flush=True)


def failure(name: str, error: str) -> dict[str, Any]:
    """Return the row of a program that could not be explained."""
    return {"name": name, "error": error, "causes": [], "lines": {}, "target": ""}


def read(path: Path) -> list[dict[str, Any]]:
    """Return the saved rows."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def check_files(rows: list[dict[str, Any]], strict: bool) -> CheckResult:
    """Check the files of which any program ran lines, with the programs' functions as entries."""
    from fullgraph.rewrites.check import check

    every = {file for row in rows for file in row["lines"]}
    files = sorted(file for file in every if os.path.exists(file) and is_checked(file))
    entries = []
    for row in rows:
        target = row["target"] or method_in(row["name"])
        places = [target] if isinstance(target, list) else [(file, target) for file in row["lines"]]
        if target == method_in(row["name"]):
            owner = f"class {target.partition('.')[0]}("
            places = [one for one in places if owner in Path(one[0]).read_text(encoding="utf-8")]
        entries += [f"{module_of(file)}:{name}" for file, name in places if name]
    return check(files, strict=strict, fixes=False, entries=entries)


def compare(rows: list[dict[str, Any]], strict: bool, verbose: bool) -> None:
    """Print precision and recall by category."""
    result = check_files(rows, strict)
    ran, causes = lines_that_ran(rows), causes_by_line(rows)
    right, wrong, missed, hit, idle = Counter(), Counter(), Counter(), Counter(), 0  # type: ignore[var-annotated]
    covered: dict[str, set[int]] = defaultdict(set)
    for one in result.findings:
        if one.category.startswith("recompile"):
            continue
        span = range(one.line, one.end_line + 1)
        covered[one.file].update(span)
        if not any(line in ran[one.file] for line in span) or is_for_half_precision(one):
            idle += 1
        elif any(line in causes[one.file] for line in span):
            right[one.category] += 1
        else:
            wrong[one.category] += 1
            if verbose:
                print(f"  wrong   {one.file}:{one.line}: {one.category}: {one.message[:70]}")
    for place, category, expression in distinct_causes(rows, ran):
        found = any(
            line in covered[file] for file, first, last in place for line in range(first, last + 1)
        )
        (hit if found else missed)[category] += 1
        if not found and verbose:
            file, first, _ = place[0]
            print(f"  missed  {file}:{first}: {category}: {expression[:70]!r}")
    print_table(right, wrong, hit, missed)
    print_count(rows, result, idle)


def is_for_half_precision(finding: Finding) -> bool:
    """Return whether `x.dtype == torch.float16 and …` comes before: no program is in float16."""
    line = linecache.getline(finding.file, finding.line).encode()
    before = line[: finding.column].decode()
    return ".dtype == torch.float16 and " in before


def compare_recompiles(rows: list[dict[str, Any]], strict: bool, verbose: bool) -> None:
    """Print precision and recall by kind of recompile."""
    result = check_files(rows, strict)
    *counts, idle = recompile_truth.compare(rows, result.findings, verbose)
    print_table(*counts)
    hit, missed = (
        sum(n for kind, n in one.items() if not kind.endswith(", once")) for one in counts[2:]
    )
    print(f"without those that recompile once: {hit} found, {missed} missed, {share(hit, missed)}")
    print_count(rows, result, idle)


def print_count(rows: list[dict[str, Any]], result: CheckResult, idle: int) -> None:
    """Print the number of programs, files and findings on lines that did not run."""
    print(f"{len(rows)} programs, {result.files} files; {idle} findings on lines that did not run")


def module_of(file: str) -> str:
    """Return the dotted name of a file's module."""
    from fullgraph.rewrites.check.sources import package_of

    return package_of(Path(file))[1]


def lines_that_ran(rows: list[dict[str, Any]]) -> dict[str, set[int]]:
    """Return the lines that any program ran, by file."""
    found: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        for file, lines in row["lines"].items():
            found[file].update(lines)
    return found


def causes_by_line(rows: list[dict[str, Any]]) -> dict[str, set[int]]:
    """Return the lines of all causes and of the calls that lead to them, by file."""
    found: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        for cause in row["causes"]:
            for file, first, last in cause["places"]:
                found[file].update(range(first, last + 1))
    return found


def distinct_causes(
    rows: list[dict[str, Any]], ran: dict[str, set[int]]
) -> Iterator[tuple[list[tuple[str, int, int]], str, str]]:
    """Yield each cause once, with its innermost place in a checked file."""
    seen = set()
    for row in rows:
        for cause in row["causes"]:
            places = [tuple(p) for p in cause["places"] if p[0] in ran]
            inside = [p for p in places if any(n in ran[p[0]] for n in range(p[1], p[2] + 1))]
            if not inside:
                continue
            own = inside[:1] if cause["places"][0][0] in ran else inside[-1:]
            key = (*own[0], cause["category"])
            if key not in seen:
                seen.add(key)
                yield own, cause["category"], cause["expression"]  # type: ignore[misc]


def method_in(name: str) -> str:
    """Return "DDPMScheduler.step" for "zoo:diffusers/DDPMScheduler.step", a method in a wrapper."""
    parts = name.rpartition("/")[2].split(".")
    is_method = name.startswith("zoo:") and len(parts) == 2 and all(map(str.isidentifier, parts))
    return ".".join(parts) if is_method else ""


def print_table(
    right: Counter[str], wrong: Counter[str], hit: Counter[str], missed: Counter[str]
) -> None:
    """Print the figures by category, and their sum."""
    rows = sorted({*right, *wrong, *hit, *missed}, key=lambda one: -(hit[one] + missed[one]))
    print(f"{'category':28} right wrong precision | found missed recall")
    whole = [sum(one.values()) for one in (right, wrong, hit, missed)]
    for category, counts in [
        *((one, [c[one] for c in (right, wrong, hit, missed)]) for one in rows),
        ("all", whole),
    ]:
        a, b, c, d = counts
        print(f"{category:28} {a:5} {b:5} {share(a, b):9} | {c:5} {d:6} {share(c, d):6}")


def share(part: int, rest: int) -> str:
    """Return a percentage; "" of nothing."""
    return f"{100 * part / (part + rest):.0f} %" if part + rest else ""


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="programs whose names hold this")
    every = [*SOURCES, *recompile_truth.SOURCES[:1]]
    parser.add_argument("--sources", nargs="*", default=every, choices=every)
    parser.add_argument("--half", choices=("dev", "held", "both"), default="dev")
    parser.add_argument("--timeout", type=float, default=150)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--recompiles", action="store_true", help="compare recompiles, not breaks")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="list what is wrong and missed")
    parser.add_argument("--truth", nargs="+", default=[], help=argparse.SUPPRESS)
    args = parser.parse_args()
    for name in args.truth:
        try:
            row = recompiles_of(name) if args.recompiles else truth_of(name)
        except Exception as error:  # of the program itself; the rest of the batch goes on
            row = failure(name, repr(error))
        print(json.dumps(row), flush=True)
    if args.truth:
        return
    from importlib.metadata import version

    kind, options = ("recompile", ["--recompiles"]) if args.recompiles else ("check", [])
    known, listed = (
        (recompile_truth.SOURCES, recompile_truth.names_of)
        if args.recompiles
        else (SOURCES, names_of)
    )
    sources = [one for one in args.sources if one in known]
    path = RESULTS / f"{kind}-truth-{version('torch').partition('+')[0]}.jsonl"
    if not args.compare:
        names = [name for source in sources for name in listed(source)]
        wanted = [n for n in names if args.only in n and args.half in (half_of(n), "both")]
        measure(wanted, path, args.timeout, options)
    rows = [
        row
        for row in read(path)
        if row["lines"]
        and args.only in row["name"]
        and row["name"].partition(":")[0] in sources
        and args.half in (half_of(row["name"]), "both")
    ]
    (compare_recompiles if args.recompiles else compare)(rows, args.strict, args.verbose)


if __name__ == "__main__":
    main()
