"""One trial: a model of the zoo in a fresh process, run eager or explained by one of the two.

The zoo forks a process for each trial from one server that preloaded `benchmarks.warm`, so every
trial starts from the same state: libraries imported, the compiler used once, its caches empty.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch

from benchmarks.fix_models import ENTRIES as FIX_ENTRIES
from benchmarks.loops.speed import ENTRIES as LOOPS_ENTRIES
from benchmarks.models import ENTRIES, survey
from benchmarks.models.entry import Built
from fullgraph.compiler.isolation import Emit, leave_fork_server

TORCH, FULLGRAPH, EAGER = "torch", "fullgraph", "eager"
Side = Callable[[Built], dict[str, Any]]
MODELS = ENTRIES | FIX_ENTRIES | LOOPS_ENTRIES | {one.key: one for one in survey.ENTRIES}


def run(side: Side, key: str, emit: Emit) -> dict[str, Any]:
    """Return what one side says of one model: a JSON-ready dict with `seconds` and `crash`."""
    leave_fork_server()  # what is measured forks by itself
    return attempt(side, MODELS[key].build)


def attempt(side: Side, build: Callable[[], Built]) -> dict[str, Any]:
    """What `side` says of the model that `build` gives; an exception is an answer, too."""
    try:
        built = build()
        torch.manual_seed(0)
        start = perf_counter()
        facts = side(built)
        return {**facts, "seconds": perf_counter() - start, "crash": None}
    except Exception as error:
        last = str(error).strip().splitlines() or [""]
        return {
            "seconds": None,
            "crash": f"{type(error).__name__}: {last[0]}",
            "traceback": traceback.format_exc(),
        }


def _eager(built: Built) -> dict[str, Any]:
    model, args, kwargs = built
    model(*args, **kwargs)
    return {}


def _torch(built: Built) -> dict[str, Any]:
    model, args, kwargs = built
    told = torch._dynamo.explain(model)(*args, **kwargs)
    return {
        "graphs": told.graph_count,
        "breaks": told.graph_break_count,
        "reasons": [
            {
                "text": reason.reason,
                "place": [reason.user_stack[-1].filename, reason.user_stack[-1].lineno]
                if reason.user_stack
                else None,
            }
            for reason in told.break_reasons
        ],
    }


def _fullgraph(built: Built) -> dict[str, Any]:
    from fullgraph.diagnose.explain import explain

    model, args, kwargs = built
    told = explain(model, args, kwargs=kwargs)
    return {
        "verdict": told.verdict,
        "graphs": told.default.graphs,
        "breaks": told.default.breaks,
        "ok": told.fullgraph.ok,
        "error": told.error,
        "crashes": [
            {"mode": crash.mode, "stage": crash.stage, "error": crash.error, "text": crash.message}
            for crash in told.crashes
        ],
        "causes": [
            {
                "category": cause.category,
                "gb_id": cause.gb_id,
                "message": cause.message,
                "hidden": cause.hidden,
                "modes": list(cause.modes),
                "events": cause.events,
                "places": [[p.file, p.line] for p in (cause.position, *cause.stack[-1:])],
            }
            for cause in told.causes
        ],
    }


SIDES: dict[str, Side] = {
    EAGER: _eager,
    TORCH: _torch,
    FULLGRAPH: _fullgraph,
}
