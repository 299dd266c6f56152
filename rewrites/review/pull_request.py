"""Review of a pull request, in two jobs of a GitHub workflow.

python -m fullgraph.rewrites.review.pull_request collect --event EVENT.json --out review.json
python -m fullgraph.rewrites.review.pull_request post --event EVENT.json --data review.json

`collect` checks the changed lines and runs what `[tool.fullgraph] entries` names, which is code of
the pull request: its job has no rights but to read. `post` runs nothing of the repository: it takes
what `collect` stored as data and turns it into calls of GitHub's API, with a token that may write.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fullgraph.compiler.errors import FullgraphError
from fullgraph.rewrites.check import Certainty, CheckResult, Finding, Fix, TextEdit
from fullgraph.rewrites.review.changed_lines import changed_since
from fullgraph.rewrites.review.comments import ProvedEdit, make_comments, proved_edits
from fullgraph.rewrites.review.entry_report import EntryReport, summarize
from fullgraph.rewrites.review.github_api import post_review
from fullgraph.rewrites.review.paths import find_root
from fullgraph.rewrites.review.review import Review, review_of
from fullgraph.rewrites.rule import Applicability

SCHEMA = 1
SECONDS = 240
"""Limit of one run of `explain` or `fix` on an entry, in seconds of wall time."""


def collect(event: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the JSON data of a review: the comments and summary for a pull request.

    `event` is GitHub's `pull_request` event; `folder` is in the checkout of its head.
    """
    try:
        request = event["pull_request"]
        number, head, base = request["number"], request["head"]["sha"], request["base"]["sha"]
    except (KeyError, TypeError):
        raise FullgraphError("The event is not that of a pull request.") from None
    root = find_root(folder)
    changed = changed_since(base, root)
    review = _check(root)
    reports, proved = [], []
    with _checked_out(root, changed.base) as before:
        for entry in read_entries(root):
            report, edits = _run_entry(entry, before, review)
            reports.append(report)
            proved += edits
    comments = make_comments(review, changed, proved)
    return {
        "schema": SCHEMA,
        "pull_request": number,
        "commit": head,
        "summary": summarize(reports, len(comments)),
        "comments": [asdict(one) for one in comments],
    }


def read_entries(root: Path) -> tuple[str, ...]:
    """Return the entries in `[tool.fullgraph]` of pyproject.toml, such as "net.py:build"."""
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise FullgraphError(f"pyproject.toml cannot be read: {error}.") from None
    entries = project.get("tool", {}).get("fullgraph", {}).get("entries", [])
    if not isinstance(entries, list) or not all(isinstance(one, str) for one in entries):
        raise FullgraphError("[tool.fullgraph] entries must be a list of strings.")
    return tuple(entries)


def _check(root: Path) -> Review:
    """Return the result of `fullgraph check` on the whole repository `root`, as a review."""
    data, said = _run_command(["check", ".", "--json"], root)
    if data is None:
        raise FullgraphError(f"`fullgraph check` failed: {said}")
    findings = tuple(_finding_of(one, root) for one in data["findings"])
    result = CheckResult(findings, (), data["files"], data["torch"], data["python"])
    return review_of(result, root)


def _finding_of(data: dict[str, Any], root: Path) -> Finding:
    """Return the finding that `check --json` wrote as `data`, with an absolute path."""
    fix = data["fix"]
    fields = {name: data[name] for name in Finding.__dataclass_fields__}
    return Finding(
        **fields
        | {
            "file": str(root / data["file"]),
            "certainty": Certainty(data["certainty"]),
            "modes": tuple(data["modes"]),
            "fix": fix
            and Fix(
                fix["rule"],
                Applicability(fix["applicability"]),
                fix["message"],
                tuple(fix["assumes"]),
                tuple(TextEdit(**edit) for edit in fix["edits"]),
            ),
        }
    )


def _run_entry(entry: str, before: Path, review: Review) -> tuple[EntryReport, list[ProvedEdit]]:
    """Explain a program before and after a change, and run `fix` on it.

    `entry` names the program, such as "net.py:build". `before` is a work tree of the base commit.
    Returns the report and the edits that `fix` proved.
    """
    seconds = ["--seconds", str(SECONDS)]
    old, _ = _run_command(["explain", entry, "--json", *seconds], before)
    against: list[str] = []
    with tempfile.NamedTemporaryFile("w", suffix=".json") as saved:
        if old is not None:
            json.dump(old, saved)
            saved.flush()
            against = ["--against", saved.name]
        new, said = _run_command(["explain", entry, "--json", *seconds, *against], review.root)
    if new is None:
        return EntryReport(entry, error=said), []
    fixes, _ = _run_command(["fix", entry, "--json", *seconds], review.root)
    edits = proved_edits(fixes, review) if fixes is not None else []
    report = EntryReport(entry, new["verdict"], new.get("against"), is_new=old is None)
    return report, edits


def _run_command(arguments: Sequence[str], folder: Path) -> tuple[dict[str, Any] | None, str]:
    """Run `fullgraph` with `arguments` in `folder`; return its JSON and its last line on stderr.

    The JSON is None if the command wrote none.
    """
    done = subprocess.run(
        [sys.executable, "-m", "fullgraph", *arguments],
        cwd=folder,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    said = done.stderr.decode(errors="replace").strip().split("\n")[-1]
    try:
        data = json.loads(done.stdout)
    except ValueError:
        return None, said or f"it ended with exit code {done.returncode} and without a result."
    return data, said


@contextmanager
def _checked_out(root: Path, commit: str) -> Iterator[Path]:
    """Context manager: a git work tree of a commit in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "base")
        git = ["git", "-C", str(root), "worktree"]
        subprocess.run(
            [*git, "add", "--quiet", "--detach", str(tree), commit], check=True, capture_output=True
        )
        try:
            yield tree
        finally:
            remove = [*git, "remove", "--force", str(tree)]
            subprocess.run(remove, check=True, capture_output=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job "collect" or "post", as the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fullgraph.rewrites.review.pull_request")
    jobs = parser.add_subparsers(required=True, dest="job")
    collecting = jobs.add_parser("collect", help="check and run the pull request; store data")
    collecting.add_argument("--event", required=True, metavar="FILE")
    collecting.add_argument("--out", required=True, metavar="FILE")
    posting = jobs.add_parser("post", help="post the data as a review")
    posting.add_argument("--event", required=True, metavar="FILE")
    posting.add_argument("--data", required=True, metavar="FILE")
    args = parser.parse_args(argv)
    try:
        event = _read_json(args.event)
        if args.job == "collect":
            text = json.dumps(collect(event, Path.cwd()), indent=1)
            Path(args.out).write_text(text, encoding="utf-8")
        else:
            url = os.environ.get("GITHUB_API_URL", "https://api.github.com")
            post_review(event, _read_json(args.data), url, os.environ.get("GITHUB_TOKEN", ""))
    except FullgraphError as error:
        print(f"fullgraph: {error}", file=sys.stderr)
        return 2
    return 0


def _read_json(path: str) -> dict[str, Any]:
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FullgraphError(f"{path} cannot be read as JSON: {error}.") from None
    if not isinstance(data, dict):
        raise FullgraphError(f"{path} holds no JSON object.")
    return data


if __name__ == "__main__":
    raise SystemExit(main())
