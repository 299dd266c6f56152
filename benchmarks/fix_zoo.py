"""Fix every model of the zoo that breaks, and small modules as projects write them.

    python benchmarks/fix_zoo.py [--only PART] [--jobs 2] [--seconds 120] [--fresh]

Each model is fixed in a process forked from one warmed server. Then, independently of the proofs,
original and fixed model run on new random inputs of the same kind: outputs, gradients and
exceptions must be equal, but for the index that an `IndexError` of torch names. Answers are added
to benchmarks/results/fix-<torch version>.jsonl as they come: an interrupted run goes on where it
stopped, and `--fresh` starts over. The exit code is 1 if a result changed, if fullgraph crashed, or
if fewer than 80 % of the causes in the groups *mechanical* and *under conditions* go away.

Words of the table: *causes* before; *no edit*, those of library models that are one graph under
`fullgraph=True` as they are, which Inductor ran with equal results; of the others *safe* and
*unsafe*, those gone by proved edits and by unsafe ones on top; *refused*, those that stay with a
reason; *proofs failed*, edits that were tried and did something else; *changed*, models whose fixed
version gives another result.
"""

from __future__ import annotations

import argparse
import copy
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.testing import assert_close

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.fix_models import ENTRIES
from benchmarks.models import ENTRIES as ZOO
from benchmarks.models.entry import Built
from benchmarks.server import Server, read_rows
from benchmarks.zoo_table import Row

RESULTS = Path(__file__).parent / "results"
GOAL = 0.8
FRESH = 4
"""New random inputs that original and fixed model are compared on."""


def fixed(built: Built, *, inductor: bool = False, seconds: float = 120) -> dict[str, Any]:
    """What fix makes of one model within a time limit, as JSON-ready data."""
    from fullgraph.rewrites.fix import fix

    model, args, kwargs = built
    fixes = fix(model, args, kwargs=kwargs, inductor=inductor, seconds=seconds)
    accepted = [s for s in fixes.suggestions if s.accepted]
    numbers = any(s.numbers for s in accepted)
    changed = [
        different
        for unsafe in (False, True)
        if (
            different := changes(
                *(model, fixes.patched(unsafe=unsafe), args, kwargs),
                numbers=numbers and unsafe,
                outside=not unsafe,
            )
        )
    ]
    return {
        "before": len(fixes.before.causes),
        "after": len(fixes.after.causes),
        "after_unsafe": len(fixes.after_unsafe.causes),
        "rules": [s.rule for s in accepted],
        "diffs": [[s.rule, s.applicability.value, s.diff] for s in accepted],
        "whole": fixes.whole.edits if fixes.whole and fixes.whole.check.ok else "",
        "failed": [
            {"rule": s.rule, "reason": s.proof.reason}
            for s in fixes.suggestions
            if s.proof.state.value == "failed"
        ],
        "unfixed": [
            {"cause": u.cause, "category": u.category, "reason": u.reason} for u in fixes.unfixed
        ],
        "changed": changed,
    }


def changes(
    model: Any, new: Any, args: Any, kwargs: Any, *, numbers: bool = False, outside: bool = True
) -> str:
    """How `new` differs from `model` on random inputs; "" if it does not.

    Gradients of zero are as good as none. With `numbers`, tensors without dimensions are as good as
    numbers. Without `outside`, inputs for which `model` raises say nothing: an unsafe edit may
    assume that there are none, such as a time step that is not in the schedule.
    """
    for seed in range(FRESH):
        generator = torch.Generator().manual_seed(seed)
        (theirs, slopes), (ours, new_slopes) = (
            _run(m, _random(args, generator, seed), kwargs) for m in (model, new)
        )
        if not outside and theirs and isinstance(theirs[0], str):
            continue
        if slopes is not None:  # else the original has no backward
            theirs, ours = theirs + slopes, ours + (new_slopes or [])
        if numbers:
            ours, theirs = ([_number(one) for one in ran] for ran in (ours, theirs))
        try:
            for actual, expected in zip(ours, theirs, strict=True):
                if isinstance(expected, str | None) or isinstance(actual, str | None):
                    assert actual == expected, f"{actual} instead of {expected}"
                else:
                    assert_close(actual, expected, rtol=1e-3, atol=1e-4, equal_nan=True)
        except (AssertionError, TypeError, ValueError) as error:
            return str(error).partition("\n")[0]
    return ""


def _random(args: Any, generator: torch.Generator, seed: int) -> Any:
    generator.manual_seed(seed)
    return tuple(
        torch.randn(a.shape, generator=generator, dtype=a.dtype).requires_grad_(a.requires_grad)
        if isinstance(a, torch.Tensor) and a.is_floating_point()
        else a
        for a in args
    )


def _run(model: Any, args: Any, kwargs: Any) -> tuple[list[Any], list[Any] | None]:
    """The outputs or the exception, and the parameters' gradients, None if the backward raises;
    from the same random numbers."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    model = copy.deepcopy(model)
    parameters = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
    try:
        outputs = list(_leaves(model(*args, **kwargs)))
    except Exception as error:
        text = re.sub(r"^index -?\d+ (?=is out of bounds)", "index ", str(error))
        return [f"{type(error).__name__}: {text}"], []
    tensors = [one for one in outputs if isinstance(one, torch.Tensor)]
    plain = [one.detach() if isinstance(one, torch.Tensor) else one for one in outputs]
    learning = [one.abs().sum() for one in tensors if one.requires_grad and one.numel()]
    try:
        if learning:
            torch.stack(learning).nansum().backward()
    except RuntimeError:
        return plain, None
    return plain, [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]


def _leaves(output: Any) -> Iterable[Any]:
    """The tensors, numbers and texts of an output, in order."""
    if output is None or isinstance(output, torch.Tensor | bool | int | float | str):
        yield output
    elif isinstance(output, tuple | list):
        for item in output:
            yield from _leaves(item)
    elif hasattr(output, "values"):
        yield from _leaves(tuple(output.values()))


def _number(value: Any) -> Any:
    """The number of a tensor without dimensions, or of a number, as a float; else `value`."""
    single = isinstance(value, torch.Tensor) and value.dim() == 0 and not value.is_complex()
    return float(value) if single or isinstance(value, bool | int | float) else value


def _said(row: Row) -> str:
    """One progress line of a model."""
    said = row["crash"] or "{before} → {after}, {after_unsafe} {rules}".format(**row)
    return f"{row['key']}: {said}"


def _breaking() -> list[str]:
    """The models of the zoo that the last run of it found causes in."""
    rows = read_rows(RESULTS / f"zoo-{version('torch')}.jsonl").values()
    return [row["key"] for row in rows if row["fullgraph"].get("causes") and row["key"] in ZOO]


def _table(rows: dict[str, dict[str, Any]]) -> tuple[str, float]:
    """The table in markdown, and the share of causes gone in the groups that count."""
    lines = [
        "| group | models | causes | no edit | safe | unsafe | refused | proofs failed | changed |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    groups: dict[str, list[dict[str, Any]]] = {}
    for key, row in rows.items():
        groups.setdefault(key.partition("/")[0], []).append(row)
    counted = gone = 0
    for group, members in [*groups.items(), ("all", [r for g in groups.values() for r in g])]:
        good = [row for row in members if not row["crash"]]
        none = sum(row["before"] for row in good if row["whole"] == "none")
        edited = [row for row in good if row["whole"] != "none"]
        before, after, last = (
            sum(row[name] for row in edited) for name in ("before", "after", "after_unsafe")
        )
        failed, changed = (sum(len(row[name]) for row in good) for name in ("failed", "changed"))
        counts = (none + before, none, before - after, after - last, last)
        cells = (len(members), *counts, failed, changed)
        lines.append(f"| {group} | " + " | ".join(map(str, cells)) + " |")
        if group in ("mechanical", "under conditions"):
            counted, gone = counted + before, gone + before - last
    return "\n".join(lines), gone / counted if counted else 1.0


def main() -> int:
    """Fix them all; the exit code is what the module's docstring says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="PART", help="models whose key holds PART")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="models at a time")
    parser.add_argument("--seconds", type=float, default=120, metavar="S", help="limit of one fix")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    options = parser.parse_args()
    keys = [key for key in (*_breaking(), *ENTRIES) if options.only in key]
    path = RESULTS / f"fix-{version('torch')}.jsonl"
    path.parent.mkdir(exist_ok=True)
    if options.fresh:
        path.unlink(missing_ok=True)
    server = Server(2 * options.seconds)
    questions = {
        key: partial(server.ask, partial(fixed, inductor=key in ZOO, seconds=options.seconds), key)
        for key in keys
    }
    rows = server.answer_all(path, questions, _said, options.jobs)
    chosen = {key: rows[key] for key in keys}
    table, share = _table(chosen)
    print(table)
    reasons = Counter(u["reason"] for r in chosen.values() for u in r.get("unfixed", ()))
    print(*(f"{count:4} × {reason}" for reason, count in reasons.most_common(20)), sep="\n")
    path.with_suffix(".md").write_text(table + "\n")
    print(f"{share:.0%} of mechanical causes and those under conditions are gone of {GOAL:.0%}")
    crashed = [key for key, row in chosen.items() if row["crash"]]
    changed = [key for key, row in chosen.items() if row.get("changed")]
    print("crashed:", *crashed, "changed:", *changed)
    return 1 if crashed or changed or share < GOAL else 0


if __name__ == "__main__":
    sys.exit(main())
