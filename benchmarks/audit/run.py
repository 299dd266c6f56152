"""What fix makes of the programs of the audit, and whether an edit differs on a witness.

    python -m benchmarks.audit.run [--only FG307]… [--jobs 2] [--seconds 120]

Answers are added to benchmarks/results/audit-<commit>.jsonl as they come: an interrupted run goes
on where it stopped; a whole one leaves benchmarks/results/audit-<commit>.md. An edit is *wrong* if
it is called safe and differs on a witness, in eager, or compiled where the original compiled does
not. Whether the assumption of an unsafe edit covers its difference is judged by a reader: the table
has both. The exit code is 1 if an edit is wrong, or something crashed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.audit.outcomes import build, differences, load, outcomes
from benchmarks.mutation.mutants import _git, _read
from fullgraph.compiler.isolation import begin_isolated, running_fork_server

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"
RESULTS = ROOT / "benchmarks" / "results"


def audit(path: Path, seconds: float, emit: object = None) -> dict[str, Any]:
    """Say what fix makes of one program, and what differs on its witnesses."""
    from fullgraph import fix

    text, code = path.read_text(), path.name.partition("_")[0].upper()
    with tempfile.TemporaryDirectory() as folder:
        module = load(text, Path(folder))
        program, inputs = build(module)
        fixes = fix(program, inputs, select=[code], seconds=seconds)
        edited = {
            name: fixes.changed_texts(unsafe=name == "unsafe").get(str(module.__file__), text)
            for name in ("safe", "unsafe")
        }
    eager, compiled = outcomes(text, compiled=False), outcomes(text, compiled=True)
    found: dict[str, list[str]] = {}
    for name, new in edited.items():
        texts = {text, *[edited["safe"]] * (name == "unsafe")}
        if new not in texts:
            found[name] = _differences(eager, compiled, new)
    made = [one for one in fixes.suggestions if one.accepted]
    return {
        "edits": [[one.rule, one.applicability.value, one.assumes] for one in made],
        "failed": [
            [one.rule, one.proof.reason]
            for one in fixes.suggestions
            if one.proof.state.value == "failed"
        ],
        "unfixed": [[one.cause, one.reason] for one in fixes.unfixed],
        "proved": [one.proof.state.value for one in made],
        "differs": found,
        "diff": fixes.diff(unsafe=True),
    }


def _differences(
    eager: Sequence[dict[str, Any]], compiled: Sequence[dict[str, Any]], text: str
) -> list[str]:
    """Say where an edited text differs from the original, whose outcomes are given."""
    found = []
    for how in ("eager", "compiled"):
        edited = outcomes(text, compiled=how == "compiled")
        for number, (old, new) in enumerate(zip(eager, edited, strict=True)):
            known = {one.partition(":")[0] for one in differences(old, compiled[number])}
            for one in differences(old, new):
                if how == "eager" or one.partition(":")[0] not in known:
                    found.append(f"witness {number}, {how}, {one}")
    return found


def verdict(row: dict[str, Any]) -> str:
    """Return the verdict on one program."""
    if "crash" in row:
        return "crash"
    if row["differs"].get("safe"):
        return "wrong"
    if row["differs"].get("unsafe"):
        return "unsafe, differs"
    kinds = {kind for _, kind, _ in row["edits"]}
    return "safe" if "safe" in kinds else "unsafe" if kinds else "no edit"


def table(commit: str, rows: Sequence[dict[str, Any]]) -> str:
    """Return the text of the table."""
    counts = Counter(map(verdict, rows))
    lines = [f"# Audit on {commit}", ""]
    lines += [", ".join(f"{number} {name}" for name, number in sorted(counts.items())) + ".", ""]
    lines += ["| program | verdict | difference, or reason |", "| --- | --- | --- |"]
    for row in sorted(rows, key=lambda row: row["key"]):
        told = row.get("crash") or next(iter([*row["differs"].values(), []]), [])
        if not told and not row.get("edits"):
            told = [why for _, why in (*row["failed"], *row["unfixed"])]
        assumed = [clause for _, _, assumes in row.get("edits", ()) for clause in assumes]
        if row.get("differs", {}).get("unsafe"):
            told = [*told[:1], f"assumes {'; '.join(assumed) or 'nothing'}"]
        shown = told if isinstance(told, str) else " · ".join(told[:2])
        lines.append(f"| {row['key']} | {verdict(row)} | {shown.replace('|', '¦')[:400]} |")
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="FG307", help="only these rules")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120.0, help="of each fix")
    options = parser.parse_args()
    commit = _git(ROOT, "rev-parse", "--short", "HEAD").strip()
    journal = RESULTS / f"audit-{commit}.jsonl"
    rows = {row["key"]: row for row in _read(journal)}
    names = tuple(name.lower() for name in options.only or [""])
    paths = [path for path in sorted(PROGRAMS.glob("*.py")) if path.name.startswith(names)]
    if not paths:
        print(f"no program of {', '.join(options.only)} in {PROGRAMS}", file=sys.stderr)
        return 2
    with running_fork_server("benchmarks.audit.outcomes", inductor=False):

        def ask(path: Path) -> dict[str, Any]:
            ended = begin_isolated(partial(audit, path, options.seconds), seconds=900)()
            why = f"{ended.error.type}: {ended.error.message}" if ended.error else ended.status
            return {"key": path.stem, **(ended.value or {"crash": why})}

        with ThreadPoolExecutor(options.jobs) as pool, journal.open("a") as file:
            asked = [pool.submit(ask, path) for path in paths if path.stem not in rows]
            for future in as_completed(asked):
                row = future.result()
                rows[row["key"]] = row
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                file.flush()
                print(f"[{len(rows)}/{len(paths)}] {row['key']}: {verdict(row)}", flush=True)
    chosen = [rows[path.stem] for path in paths]
    if not options.only:
        (RESULTS / f"audit-{commit}.md").write_text(table(commit, chosen))
    print(table(commit, chosen))
    return 1 if any(verdict(row) in ("wrong", "crash") for row in chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
