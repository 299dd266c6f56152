"""The cases of the golden data: each asks the public face of fullgraph, and keeps facts."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from benchmarks import golden_facts
from benchmarks.fix_models import CASES as FIX_MODELS
from benchmarks.golden_facts import ROOT, Facts
from benchmarks.golden_programs import PROGRAMS
from benchmarks.models import ENTRIES as ZOO
from benchmarks.models import survey
from fullgraph import bisect, explain, fix, minify

Case = Callable[[], Facts]
SECONDS = 240.0
"""Wall time for `fix`, and for `explain` on a model; no case needs it all, so that no result
depends on how busy the machine is."""
ZOO_SAMPLE = (
    "transformers/BigBirdModel",
    "transformers/LEDModel",
    "transformers/LongformerModel",
    "transformers/SwitchTransformersModel",
    "transformers/ViltModel",
    "transformers/Wav2Vec2ForCTC (train)",
    "transformers/FunnelModel",
    "timm/levit_128s",
)
"""Small models of the zoo, from libraries that the tests install; all but the last two break."""


def _rule(key: str, alone: bool) -> Facts:
    program = PROGRAMS[key]
    with program.within():
        model, inputs = program.build()
        loss = True if program.loss else None
        select = (program.rule, *program.helpers) if alone else ()
        fixes = fix(
            model, inputs, loss=loss, select=select, inductor=False, seconds=SECONDS
        ).to_dict()
        if alone:
            return {"fix": golden_facts.of_fix(fixes)}
        explained = explain(model, inputs, loss=loss).to_dict()
    return {"explain": golden_facts.of_explain(explained), "fix": golden_facts.of_fix(fixes)}


def _example(build: str, how: dict[str, Any]) -> Facts:
    module, _, name = build.rpartition(".")
    seed()
    model, inputs = getattr(importlib.import_module(module), name)()
    if how.get("loss"):
        model.train()
    try:
        return {"explain": golden_facts.of_explain(explain(model, inputs, **how).to_dict())}
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _example_fixed(build: str) -> Facts:
    module, _, name = build.rpartition(".")
    seed()
    fixes = fix(*getattr(importlib.import_module(module), name)(), inductor=False)
    return {"fix": golden_facts.of_fix(fixes.to_dict())}


def _command(*arguments: str) -> Facts:
    """A command in a process of its own: its exit code, and the facts of its --json."""
    done = subprocess.run(
        [sys.executable, "-m", "fullgraph", *arguments, "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    facts = {"explain": golden_facts.of_explain, "fix": golden_facts.of_fix}[arguments[0]]
    return {"exit": done.returncode, arguments[0]: facts(json.loads(done.stdout))}


def _fix_model(name: str) -> Facts:
    model, inputs = FIX_MODELS[name].build()
    explained = explain(model, inputs).to_dict()
    model, inputs = FIX_MODELS[name].build()
    fixes = fix(model, inputs, inductor=False, seconds=SECONDS).to_dict()
    return {"explain": golden_facts.of_explain(explained), "fix": golden_facts.of_fix(fixes)}


def _zoo_model(key: str) -> Facts:
    model, args, kwargs = SURVEYED[key].build() if key in SURVEYED else ZOO[key].build()
    return {
        "explain": golden_facts.of_explain(
            explain(model, args, kwargs=kwargs, seconds=SECONDS).to_dict()
        )
    }


def _bug(path: Path, ask: str) -> Facts:
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    seed()
    model, inputs = module.build()
    how: dict[str, Any] = {
        "loss": True if module.BACKWARD else None,
        "dynamic": module.DYNAMIC,
        "check_strides": module.CHECK_STRIDES,
        "jobs": 1,
    }
    if ask == "bisect":
        return golden_facts.of_bisect(bisect(model, inputs, **how).to_dict())
    source = path.read_text()
    data = minify(model, inputs, source=source, **how).to_dict()
    text = Path(data["script"]).read_text() if data["script"] else ""
    return golden_facts.of_minify(data, text)


def seed() -> None:
    """The same random numbers in every process."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


SURVEYED = {entry.key: entry for entry in survey.BREAKING}

RULES: dict[str, Case] = {
    **{key: partial(_rule, key, True) for key in PROGRAMS},
    **{f"{key} all": partial(_rule, key, False) for key in PROGRAMS},
}
"""Each program under its own rule alone, and as "FG101 all" under all rules."""

_TRAIN = {"loss": True, "backend": "aot_eager"}
EXAMPLES: dict[str, Case] = {
    **{
        f"explain {name}": partial(_example, f"examples.{name}", how)
        for name, how in {
            "suspects.build": {},
            "suspects.build_loop": {},
            "collectives.build": {},
            "collectives.build_broadcast": {},
            "collectives.build_barrier": {},
            "collectives.build_object": {},
            "collectives.build_ddp": {},
            "training_step.build": _TRAIN,
        }.items()
    },
    **{
        f"fix {name}": partial(_example_fixed, f"examples.{name}")
        for name in ("suspects.build", "suspects.build_loop", "training_step.build")
    },
}
COMMANDS: dict[str, Case] = {
    f"command {' '.join(line)}": partial(_command, *line)
    for line in (
        ("explain", "examples/suspects.py:build"),
        ("explain", "examples/suspects.py:build_loop", "--exit-nonzero-on-break"),
        ("explain", "examples/collectives.py:build_object"),
        ("explain", "examples/training_step.py", "--train", "--backend", "aot_eager"),
        ("fix", "examples/suspects.py:build", "--no-inductor"),
        ("fix", "examples/suspects.py:build_loop", "--no-inductor", "--select", "FG1"),
    )
}
MODELS: dict[str, Case] = {
    **{name: partial(_fix_model, name) for name in list(FIX_MODELS)[::3]},
    **{key: partial(_zoo_model, key) for key in (*SURVEYED, *ZOO_SAMPLE)},
}
"""Every third of the modules as projects write them, and a sample of the zoo."""


def cases(bugs: Path) -> dict[str, dict[str, Case]]:
    """The cases of each data file; `bugs` is a folder of scripts of verified compiler bugs."""
    return {
        "rules": RULES,
        "examples": {**EXAMPLES, **COMMANDS},
        "models": MODELS,
        "bugs": {
            f"{ask} {path.stem}": partial(_bug, path, ask)
            for ask in ("bisect", "minify")
            for path in sorted(bugs.glob("*.py"))
        },
    }


def run(bugs: str, key: str, answer: Connection) -> None:
    """Send the facts of the case "PART/NAME"; an exception is a fact, too."""
    os.setsid()  # whatever this case starts is ended with it
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    os.register_at_fork(after_in_child=lambda: random.seed(0))  # else Python seeds it anew
    part, _, name = key.partition("/")
    answer.send(attempt(cases(Path(bugs))[part][name]))


def attempt(case: Case) -> dict[str, Any]:
    """`{"facts": …}`, with the traceback of an exception as `traceback`, as JSON has them."""
    try:
        facts, told = case(), ""
    except Exception as error:
        facts, told = {"raises": type(error).__name__}, traceback.format_exc()
    with suppress(TypeError):
        facts = json.loads(json.dumps(facts))
    return {"facts": facts, "traceback": told}
