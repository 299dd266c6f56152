"""Minify the reports of `benchmarks/reports`, and compare the scripts with their reporters'.

    python benchmarks/reports.py --out FOLDER [--only NAME…] [--timeout 400] [--jobs 1]

Each report runs `fullgraph minify` in a process of its own, which leaves NAME.py, NAME.md (the text
for an issue tracker) and NAME.log in the folder. The script is then run in an empty folder, by a
fresh interpreter: it must fail with the expected error, and pass where torch.compile is disabled.
Answers are added to benchmarks/results/reports-<commit>.jsonl as they come: an interrupted run
resumes. A whole run leaves its table beside it.

Columns: the expected rung, and the one found if it is another; lines and operators of the script
and, in brackets, of the reporter's; whether the script stands alone; wall time, CPU time and runs
of minify. A report is *good* if the rung is right, the script stands alone and is no larger than
the reporter's. The exit code is 1 if one is not good, or if a control is not refused.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.reports import REPORTS, Report

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SCRIPT_SECONDS = 180.0
"""Seconds that a script may run, its C++ compilation included."""
BACKENDS = {"eager": "dynamo", None: "inductor"}
"""The rung of a backend in a script; the others have the name of their rung."""


def minify(report: Report, out: Path, timeout: float) -> dict[str, Any]:
    """Run `fullgraph minify` on a report, check its script, and return what was found."""
    script, log = out / f"{report.name}.py", out / f"{report.name}.log"
    for old in (script, log, out / f"{report.name}.md"):
        old.unlink(missing_ok=True)
    command = [sys.executable, "-m", "fullgraph", "minify", f"{report.file}:build", *report.flags]
    command += ["--json", "--issue", "--out", str(script)]
    printed, seconds, cpu, timed_out = _run_and_measure(command, log, timeout)
    about = {"seconds": round(seconds, 1), "cpu": round(cpu, 1)}
    if timed_out:
        return {**about, "crash": f"no answer in {timeout:.0f} s"}
    try:
        found = json.loads(printed)
    except json.JSONDecodeError:
        last = (log.read_text().strip().splitlines() or ["no answer"])[-1]
        return {**about, "crash": last}
    if found.get("issue"):
        (out / f"{report.name}.md").write_text(found["issue"])
    names = ("first_failing", "refused", "lines", "ops", "calls", "standalone", "notes")
    row = {"crash": None, **about, **{name: found[name] for name in names}}
    if not report.is_control and found["script"]:
        row |= {"alone": check_script(script, report), "backend": _backend_of(script)}
    return row


def check_script(script: Path, report: Report) -> str:
    """Run a script in an empty folder and say what is wrong with it; "" if nothing is."""
    status, said = _run_script(script)
    expected = report.error or "AssertionError"
    if status == 0:
        return "passes"
    if expected not in said:
        return f"fails otherwise: {(said.strip().splitlines() or ['no message'])[-1]}"
    status, _ = _run_script(script, TORCH_COMPILE_DISABLE="1")
    return "fails in eager too" if status else ""


def _run_script(script: Path, **environment: str) -> tuple[int, str]:
    """Return the exit status and stderr of a fresh interpreter in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        alone = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        alone |= {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/cache", "TMPDIR": folder, **environment}
        (Path(folder) / script.name).write_text(script.read_text())
        try:
            done = subprocess.run(
                [sys.executable, script.name],
                cwd=folder,
                env=alone,
                capture_output=True,
                text=True,
                timeout=SCRIPT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return 124, f"no end in {SCRIPT_SECONDS:.0f} s"
        return done.returncode, done.stderr


def _run_and_measure(
    command: Sequence[str], log: Path, timeout: float
) -> tuple[str, float, float, bool]:
    """Return a command's stdout, wall seconds, CPU seconds, and whether it was stopped."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    start, stopped = time.perf_counter(), False
    with tempfile.TemporaryFile("w+") as printed, log.open("w") as errors:
        process = subprocess.Popen(
            command,
            stdout=printed,
            stderr=errors,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            if not stopped and time.perf_counter() - start > timeout:
                stopped = True
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.1)
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        taken = time.perf_counter() - start
        return printed.read(), taken, usage.ru_utime + usage.ru_stime, stopped


def _backend_of(script: Path) -> str | None:
    """Return the backend that a script names; None for torch.compile's default."""
    named = re.search(r"""backend=["'](\w+)["']""", script.read_text())
    return named[1] if named else None


def faults_of(report: Report, row: dict[str, Any]) -> list[str]:
    """Return what is not good about a row, a clause each."""
    if row["crash"]:
        return [row["crash"]]
    if report.is_control:
        said = row["refused"] or ""
        return [] if report.refusal in said else [f"not refused: {said or row['first_failing']}"]
    faults = []
    if row["first_failing"] != report.rung:
        faults.append(f"rung {row['first_failing']}")
    if "alone" not in row:
        return [*faults, f"no script: {row['refused'] or '; '.join(row['notes'])}"]
    if BACKENDS.get(row["backend"], row["backend"]) != report.rung:
        faults.append(f"the script compiles with {row['backend'] or 'inductor'}")
    if row["alone"]:
        faults.append(f"the script {row['alone']}")
    if report.lines is not None and row["lines"] > report.lines:
        faults.append("more lines")
    if report.operators is not None and row["ops"] > report.operators:
        faults.append("more operators")
    return faults


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table of reports and the list of controls, in markdown."""
    head = ("report", "rung", "lines", "operators", "alone", "wall s", "CPU s", "runs", "faults")
    lines = [f"| {' | '.join(head)} |", f"| --- | --- |{' ---: |' * 2} --- |{' ---: |' * 3} --- |"]
    good, refused, controls = [], [], []
    for row in rows:
        report = REPORTS[row["name"]]
        faults = faults_of(report, row)
        if report.is_control:
            controls.append(f"- {row['name']}: {row['crash'] or row['refused'] or 'NOT refused'}")
            refused.append(not faults)
            continue
        good.append(not faults)
        found = row.get("first_failing")
        rung = report.rung if found == report.rung else f"{report.rung}, found {found}"
        cells = (
            *(report.name, rung),
            _beside(row.get("lines"), report.lines),
            _beside(row.get("ops"), report.operators),
            "–" if row.get("alone") is None else "no" if row["alone"] else "yes",
            *(f"{row['seconds']:.0f}", f"{row['cpu']:.0f}", row.get("calls", "–")),
            "; ".join(faults),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    counts = f"{sum(good)} of {len(good)} reports are good, {sum(refused)} of {len(refused)}"
    return "\n".join([*lines, "", f"{counts} controls are refused.", "", *controls])


def _beside(found: int | None, reporters: int | None) -> str:
    return f"{'–' if found is None else found} ({'–' if reporters is None else reporters})"


def main() -> int:
    """Run what was chosen; the exit code is what the module's docstring says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="for the scripts")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", choices=REPORTS)
    parser.add_argument("--timeout", type=float, default=400, metavar="S", help="for one report")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="reports at a time")
    options = parser.parse_args()
    out: Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    chosen = options.only or list(REPORTS)
    path = _journal()
    rows = _finished(path)
    left = [REPORTS[name] for name in chosen if name not in rows]
    with path.open("a") as file, ThreadPoolExecutor(options.jobs) as pool:
        asked = {pool.submit(minify, one, out, options.timeout): one for one in left}
        for future in as_completed(asked):
            one = asked[future]
            row = rows[one.name] = {"name": one.name, **future.result()}
            print(json.dumps(row, ensure_ascii=False), file=file, flush=True)
            faults = "; ".join(faults_of(one, row)) or "good"
            print(f"{one.name}: {faults}, {row['seconds']:.0f} s", flush=True)
    shown = [rows[name] for name in chosen]
    text = table(shown)
    print(text)
    if not options.only:
        path.with_suffix(".md").write_text(text + "\n")
    return 1 if any(faults_of(REPORTS[row["name"]], row) for row in shown) else 0


def _journal() -> Path:
    git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    return RESULTS / f"reports-{commit}.jsonl"


def _finished(path: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of an interrupted run by name; what crashed runs again."""
    rows = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        with suppress(json.JSONDecodeError):
            row = json.loads(line)
            if not row["crash"] and row["name"] in REPORTS:
                rows[row["name"]] = row
    return rows


if __name__ == "__main__":
    sys.exit(main())
