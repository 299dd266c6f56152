"""Golden data: what explain, fix, bisect and minify find today, and whether it is still so.

    python benchmarks/golden.py record [--only PART]… [--jobs 2] [--fresh]
    python benchmarks/golden.py compare [--only PART]… [--jobs 2] [--resume]

The data files, benchmarks/golden/{rules,examples,models,bugs}.json, hold facts and no prose; see
`golden_facts`. Each case is asked through the public face in a process of its own. PART is a piece
of "FILE/CASE": "rules", "rules/FG301", "minify".

`record` asks each case twice. What differs between the two is recorded as "(varies)" and matches
everything; it is printed. Cases that the files have are skipped, so an interrupted recording goes
on where it stopped; `--fresh` records them again. `compare` prints what changed, as
`path: old → new`, and exits with 1 if anything did; with `--resume` it goes on where the last
comparison stopped, and takes its answers on trust. The bugs are scripts outside of the repository:
without their folder (`--bugs`) these cases are left out. The exit code is 2 if no case matches.

Two things vary unless they are held, and are held here. Python seeds `random` anew in every fork,
so each case sets the seed again there. `explain` stops looking for causes after `seconds` of wall
time, so on a busy machine it finds fewer in a large model; models get more time than they need.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from time import monotonic
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import golden_cases
from benchmarks.golden_facts import ROOT
from benchmarks.golden_server import Server

DATA = Path(__file__).parent / "golden"
ANSWERS = Path(__file__).parent / "results" / "golden.jsonl"
VARIES = "(varies)"
_LINES = 12
"""Lines of differences shown for one case."""


def stable(first: Any, second: Any) -> Any:
    """What two recordings agree on, with VARIES where they do not."""
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
        return {name: stable(first[name], second[name]) for name in first}
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return [stable(one, other) for one, other in zip(first, second, strict=True)]
    return first if first == second else VARIES


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Where `new` differs from the golden `old`, one "path: old → new" each; texts as a diff."""
    if old in (new, VARIES):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            inside = f"{path}.{name}" if path else name
            yield from differences(old.get(name), new.get(name), inside)
    elif _is_text(old) and _is_text(new):
        yield f"{path}:"
        lines = difflib.unified_diff(old, new, "golden", "now", n=1, lineterm="")
        yield from (f"    {line}" for line in lines)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{path}: {len(old)} items → {len(new)} items"
            yield from (f"    - {_short(one)}" for one in old if one not in new)
            yield from (f"    + {_short(one)}" for one in new if one not in old)
            return
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    else:
        yield f"{path}: {_short(old)} → {_short(new)}"


def golden(part: str) -> dict[str, Any]:
    """The recorded facts of one file, by case."""
    path = DATA / f"{part}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _is_text(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 3 and all(isinstance(one, str) for one in value)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:299]}…"


def _varying(facts: Any, path: str = "") -> Iterator[str]:
    if facts == VARIES:
        yield path
    elif isinstance(facts, dict):
        for name, value in facts.items():
            yield from _varying(value, f"{path}.{name}" if path else name)
    elif isinstance(facts, list):
        for number, value in enumerate(facts):
            yield from _varying(value, f"{path}[{number}]")


def _write(part: str, facts: dict[str, Any]) -> None:
    DATA.mkdir(exist_ok=True)
    text = json.dumps(facts, indent=1, sort_keys=True, ensure_ascii=False)
    (DATA / f"{part}.json").write_text(text + "\n")


class Asking:
    """Asks cases in forked processes, a few at a time, and shows how far it is."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.server = Server(str(options.bugs.resolve()), options.timeout)

    def answers(self, keys: list[str], times: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Each key with its answers, as they come."""
        start = monotonic()
        with ThreadPoolExecutor(self.options.jobs) as pool:
            left = {pool.submit(self._ask, key, times): key for key in keys}
            for done, future in enumerate(as_completed(left), 1):
                key, answers = left[future], future.result()
                print(f"[{done}/{len(keys)} {monotonic() - start:.0f} s] {key}", flush=True)
                yield key, answers

    def _ask(self, key: str, times: int) -> list[dict[str, Any]]:
        return [self.server.ask(key) for _ in range(times)]


def record(asking: Asking, keys: list[str], fresh: bool) -> int:
    """Record the cases that the data files do not have yet, or all of them; exit code 1 if one
    died."""
    known = {part: golden(part) for part in {key.partition("/")[0] for key in keys}}
    parted = {key: key.partition("/")[::2] for key in keys}
    left = [key for key, (part, name) in parted.items() if fresh or name not in known[part]]
    died = False
    for key, (first, second) in asking.answers(left, 2):
        part, name = parted[key]
        if crash := first.get("crash") or second.get("crash"):
            print(f"    not recorded: {crash}")
            died = True
            continue
        if first["traceback"]:
            print(first["traceback"])
        known[part][name] = stable(first["facts"], second["facts"])
        for path in _varying(known[part][name]):
            print(f"    varies: {path}")
        _write(part, known[part])
    return int(died)


def compare(asking: Asking, keys: list[str], resume: bool, kept: Path) -> int:
    """Print what differs from the golden data; exit code 1 if anything does.

    The answers are kept in a file; with `resume`, those that it has are not asked for again.
    """
    kept.parent.mkdir(exist_ok=True)
    if not resume:
        kept.unlink(missing_ok=True)
    lines = kept.read_text().splitlines() if kept.exists() else []
    answers = {row["key"]: row for row in map(json.loads, lines) if row["key"] in keys}
    changed = [key for key in keys if key in answers and _changed(key, answers[key])]
    with kept.open("a") as file:
        left = [key for key in keys if key not in answers]
        for key, (answer,) in asking.answers(left, 1):
            print(json.dumps({"key": key, **answer}), file=file, flush=True)
            if _changed(key, answer):
                changed.append(key)
    print(f"{len(keys) - len(changed)} of {len(keys)} cases are as recorded")
    if changed:
        print("changed:", *(json.dumps(key) for key in sorted(changed)))
    return int(bool(changed))


def _changed(key: str, answer: dict[str, Any]) -> bool:
    """Whether a case's answer differs from the golden one; prints how."""
    part, _, name = key.partition("/")
    if answer.get("crash"):
        found = [answer["crash"]]
    else:
        found = [*differences(golden(part).get(name), answer["facts"])]
        found += answer["traceback"].splitlines()[-3:] if found else []
    if found:
        print(f"{key} changed:")
        print(*(f"  {line}" for line in found[:_LINES]), sep="\n")
        if len(found) > _LINES:
            print(f"  … {len(found) - _LINES} lines more")
    return bool(found)


def main() -> int:
    """Record or compare; the exit code is what the module's docstring says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("record", "compare"))
    parser.add_argument(
        "--only", action="append", metavar="PART", help="cases whose key holds a PART"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="cases at a time")
    parser.add_argument("--timeout", type=float, default=400, metavar="S", help="for one case")
    parser.add_argument("--fresh", action="store_true", help="record known cases again")
    parser.add_argument("--resume", action="store_true", help="go on with the last comparison")
    parser.add_argument("--answers", type=Path, default=ANSWERS, metavar="FILE", help="kept here")
    bugs = ROOT.parent / "shared" / "bugs"
    parser.add_argument("--bugs", type=Path, default=bugs, metavar="FOLDER", help="scripts of bugs")
    options = parser.parse_args()
    keys = [
        f"{part}/{name}"
        for part, cases in golden_cases.cases(options.bugs).items()
        for name in cases
        if any(text in f"{part}/{name}" for text in options.only or [""])
    ]
    if options.command == "compare":
        keys = [key for key in keys if key.partition("/")[2] in golden(key.partition("/")[0])]
    if not keys:
        print(f"no case's key holds {' or '.join(options.only)}", file=sys.stderr)
        return 2
    asking = Asking(options)
    try:
        if options.command == "record":
            return record(asking, keys, options.fresh)
        return compare(asking, keys, options.resume, options.answers)
    except KeyboardInterrupt:
        asking.server.close()
        print("interrupted; run again to go on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
