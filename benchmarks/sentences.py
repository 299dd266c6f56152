"""Draw sentences from reports at random, for a reader to judge: is it true, is it useful?

    python benchmarks/sentences.py ask [--public FOLDER] [--jobs 1]
    python benchmarks/sentences.py draw [--public FOLDER] [--count 200] [--seed 46]

`ask` explains 40 situations of `benchmarks/field`, 40 models of the zoo, drawn with the seed, and
the programs in the subfolders of FOLDER: code of other projects, each with a `build.py` beside it
and a `meta.json` that names its repository, commit and path. What they say is added to
benchmarks/results/said-<commit>.jsonl as it comes: an interrupted run goes on where it stopped.
`draw` writes benchmarks/results/sentences-<commit>.json: sentences with the place in the code that
each is about, a third of each kind of program, with "true" and "useful" still to be filled in. Of
other projects it holds the place alone, and no line of their code.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fullgraph.diagnose.explanation_data import Cause, ExplanationData

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.check_truth import build
from benchmarks.nightly import git
from benchmarks.server import Server, read_rows

RESULTS = Path(__file__).parent / "results"
PROGRAMS, LIMIT, SECONDS = 40, 600.0, 60.0
"""Programs of a corpus, seconds for one of them, and seconds of its explanation."""


def sentences(found: ExplanationData) -> Iterator[tuple[str, str, int, str]]:
    """Yield what a report says: the kind of sentence, the file and line it is about, and itself."""
    if found.error is None:
        yield "verdict", "", 0, found.verdict
    for cause in found.causes:
        yield from _of_cause(cause)
    for one in found.recompiles:
        yield from _of_cause(one.as_cause())
    for fallback in found.fallbacks:
        texts = [fallback.reason, *(advice.text for advice in fallback.advice[:1])]
        yield from (("fallback", fallback.file, fallback.line, text) for text in texts)
    for crash in found.crashes:
        place = (crash.position.file, crash.position.line) if crash.position else ("", 0)
        yield "crash", *place, f"{crash.message} {crash.conclusion}"
    for note in found.notes:
        place = (note.position.file, note.position.line) if note.position else ("", 0)
        yield "note", *place, note.message


def _of_cause(cause: Cause) -> Iterator[tuple[str, str, int, str]]:
    place = cause.position.file, cause.position.line
    yield "cause", *place, cause.message
    for advice in cause.advice[:1]:
        example = f" After: {advice.after}" if advice.after else ""
        yield "advice", *place, f"{advice.text} {advice.trap}".strip() + example
    yield from (("consequence", *place, text) for text in cause.consequences)
    for edit in cause.edits[:1]:
        assumed = f" Assumes: {'; '.join(edit.assumes)}." if edit.assumes else ""
        change = "\n".join([*(f"- {x}" for x in edit.before), *(f"+ {x}" for x in edit.after)])
        yield "edit", *place, f"{edit.rule}, {edit.applicability}: {edit.why}{assumed}\n{change}"


def ask(make: Callable[[], Any], emit: object = None) -> dict[str, Any]:
    """Explain a program; return what the report says."""
    from fullgraph import explain

    program, args, kwargs = make()
    found = explain(program, args, kwargs=kwargs, seconds=SECONDS)
    said = [[kind, _shown(file), line, text] for kind, file, line, text in sentences(found)]
    return {"said": said, "crash": None}


def _shown(file: str) -> str:
    for folder in ("/site-packages/", f"{Path(__file__).parents[1]}/"):
        file = file.rpartition(folder)[2]
    return file


def _public(folder: Path) -> Any:
    os.chdir(folder)
    here = str(Path(__file__).parent)  # which holds a package `models`, too
    sys.path[:] = [str(folder), *(path for path in sys.path if path != here)]
    return *importlib.import_module("build").build(), {}


def questions(public: Path | None, seed: int) -> dict[str, Callable[[], Any]]:
    """Return what makes each program, by its name."""
    from benchmarks.field import SITUATIONS
    from benchmarks.models import ENTRIES

    drawing = random.Random(seed)
    situations, models = (drawing.sample(sorted(one), PROGRAMS) for one in (SITUATIONS, ENTRIES))
    folders = sorted(public.resolve().glob("*/build.py")) if public else []
    return {
        **{f"public/{one.parent.name}": partial(_public, one.parent) for one in folders},
        **{f"field/{name}": partial(build, f"field:{name}") for name in situations},
        **{f"zoo/{name}": partial(build, f"zoo:{name}") for name in models},
    }


def place_of(key: str, file: str, line: int, public: Path | None) -> str:
    """Return where a sentence points: "owner/name@commit:file.py:12" in another project."""
    corpus, _, name = key.partition("/")
    if corpus != "public" or public is None or not file.startswith(str(public.resolve())):
        return f"{file}:{line}"
    meta = json.loads((public / name / "meta.json").read_text())
    inside = Path(file).relative_to(public.resolve() / name)
    return f"{meta['repository']}@{meta['commit']}:{inside}:{line}"


def draw(
    rows: list[dict[str, Any]], count: int, seed: int, public: Path | None
) -> list[dict[str, Any]]:
    """Draw sentences, as many of each corpus if it has them."""
    pools: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        corpus = row["key"].partition("/")[0]
        for kind, file, line, text in row.get("said", ()):
            place = place_of(row["key"], file, line, public)
            text = text.partition("\n- ")[0]
            one = {"program": row["key"], "kind": kind, "place": place, "sentence": text}
            pools.setdefault(corpus, []).append(one | {"true": None, "useful": None, "why": ""})
    chosen: list[dict[str, Any]] = []
    drawing = random.Random(seed)
    for left, (_, pool) in zip(
        range(len(pools), 0, -1), sorted(pools.items(), key=lambda one: len(one[1])), strict=True
    ):
        chosen += drawing.sample(pool, min(len(pool), (count - len(chosen)) // left))
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("ask", "draw"))
    parser.add_argument("--public", type=Path, metavar="FOLDER")
    parser.add_argument("--only", action="append", metavar="PART", help="a piece of CORPUS/NAME")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=46)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    commit = git("rev-parse", "--short", "HEAD").strip()
    journal = RESULTS / f"said-{commit}.jsonl"
    if options.what == "draw":
        path = RESULTS / f"sentences-{commit}.json"
        chosen = draw([*read_rows(journal).values()], options.count, options.seed, options.public)
        lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in chosen)
        path.write_text(f"[\n{lines}\n]\n")
        print(f"{len(chosen)} sentences: {path}")
        return 0
    server = Server(LIMIT)
    asked = {
        key: partial(server.run, partial(ask, make))
        for key, make in questions(options.public, options.seed).items()
        if any(part in key for part in options.only or [""])
    }
    server.answer_all(
        journal,
        asked,
        lambda row: f"{row['key']}: {row['crash'] or len(row['said'])}",
        options.jobs,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
