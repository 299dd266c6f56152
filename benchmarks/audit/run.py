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
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.audit.outcomes import build, differences, load, outcomes
from benchmarks.nightly import git
from benchmarks.server import Server

PROGRAMS = Path(__file__).parent / "programs"
RESULTS = Path(__file__).parents[1] / "results"
LIMIT = 900.0
"""Seconds for one program with all its witnesses, beside those of `fix`."""


def audit(path: Path, seconds: float, emit: object = None) -> dict[str, Any]:
    """Say what fix makes of one program, and what differs on its witnesses."""
    from fullgraph import fix
    from fullgraph.compiler.isolation import leave_fork_server

    leave_fork_server()  # a lock cannot be sent to another process, and is forked
    text, code = path.read_text(), path.name.partition("_")[0].upper()
    with tempfile.TemporaryDirectory() as folder:
        module = load(text, Path(folder))
        program, inputs = build(module)
        fixes = fix(program, inputs, select=[code], seconds=seconds)
        edited = {
            name: fixes.changed_texts(unsafe=name == "unsafe").get(str(module.__file__), text)
            for name in ("safe", "unsafe")
        }
    original = _Original(text)
    found = {}
    if edited["safe"] != text:
        found["safe"] = original.differences(edited["safe"])
    if edited["unsafe"] not in (text, edited["safe"]):
        found["unsafe"] = original.differences(edited["unsafe"])
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
        "crash": None,
    }


class _Original:
    """What a caller sees of the original on each witness, in eager and compiled."""

    def __init__(self, text: str) -> None:
        self._eager = [*outcomes(text, compiled=False)]
        compiled = outcomes(text, compiled=True)
        self._of_compiler = [
            {name for name, _ in differences(*both)}
            for both in zip(self._eager, compiled, strict=True)
        ]
        """What differs on each witness when the original is compiled: no edit did it."""

    def differences(self, text: str) -> list[str]:
        """Say where an edited text differs."""
        return [*chain.from_iterable(self._differences(text, how) for how in ("eager", "compiled"))]

    def _differences(self, text: str, how: str) -> list[str]:
        """Say where it differs in eager or compiled; a crash or a hang is a difference, too."""
        from fullgraph.compiler.isolation import run_isolated

        def job(emit: Callable[[str], None]) -> None:
            edited = outcomes(text, compiled=how == "compiled")
            for number, both in enumerate(zip(self._eager, edited, strict=True)):
                for name, told in differences(*both):
                    if how == "eager" or name not in self._of_compiler[number]:
                        emit(f"witness {number}, {how}, {name}: {told}")

        ended = run_isolated(job, seconds=LIMIT / 4, where="fork")
        found = [*map(str, ended.messages)]
        if ended.status == "raised" and ended.error is not None:
            raise RuntimeError(ended.error.traceback)
        return found if ended.status == "ok" else [*found, f"{how}: {ended.signal or ended.status}"]


def verdict(row: dict[str, Any]) -> str:
    """Return the verdict on one program."""
    if row["crash"]:
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
        shown = " · ".join(_told(row)[:2]).replace("|", "¦")[:400]
        lines.append(f"| {row['key']} | {verdict(row)} | {shown} |")
    return "\n".join([*lines, ""])


def _told(row: dict[str, Any]) -> list[str]:
    """Return the crash, the first difference with what was assumed, or the reasons for no edit."""
    if row["crash"]:
        return [row["crash"]]
    differs = [one for told in row["differs"].values() for one in told]
    if not row["edits"]:
        return [why for _, why in (*row["failed"], *row["unfixed"])]
    if verdict(row) == "unsafe, differs":
        assumed = [clause for _, _, assumes in row["edits"] for clause in assumes]
        return [*differs[:1], f"assumes {'; '.join(assumed) or 'nothing'}"]
    return differs


def _said(row: dict[str, Any]) -> str:
    return f"{row['key']}: {verdict(row)}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="FG307", help="only these rules")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120.0, help="of each fix")
    options = parser.parse_args()
    commit = git("rev-parse", "--short", "HEAD").strip()
    journal = RESULTS / f"audit-{commit}.jsonl"
    names = tuple(name.lower() for name in options.only or [""])
    paths = [path for path in sorted(PROGRAMS.glob("*.py")) if path.name.startswith(names)]
    if not paths:
        print(f"no program of {', '.join(options.only)} in {PROGRAMS}", file=sys.stderr)
        return 2
    server = Server(LIMIT, warm="benchmarks.audit.outcomes")
    questions = {
        path.stem: partial(server.run, partial(audit, path, options.seconds)) for path in paths
    }
    rows = server.answer_all(journal, questions, _said, options.jobs)
    chosen = [rows[path.stem] for path in paths]
    if not options.only:
        (RESULTS / f"audit-{commit}.md").write_text(table(commit, chosen))
    print(table(commit, chosen))
    return 1 if any(verdict(row) in ("wrong", "crash") for row in chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
