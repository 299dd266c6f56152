"""What an explanation costs beside `torch._dynamo.explain`, over thirty models, half of them breaking.

    python benchmarks/explain_speed.py [--repeats 3] [--only PART] [--jobs 1]

Each measurement is made in a fresh process forked from one warmed server, and the order of what
is compared alternates. For every model the medians of its repeats are taken; ratios are joined
over the models by their geometric mean. Two of them have a target:

- *report*: the default-mode report, by `torch._dynamo.explain`, at most 1.3;
- *recorder*: a plain `torch.compile(backend="eager")` call from reset under `record()`, by the
  same without, at most 1.05.

Beside them stand the prices of what explain does not have: the second mode, isolation in a forked
child, and unmasking. Nothing here is an assertion on absolute time; the exit code is 1 if a
target is missed.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.models import survey
from benchmarks.models.entry import Built
from benchmarks.server import Server

BREAKING = (
    *(entry.key for entry in survey.BREAKING),
    "transformers/LongformerModel",
    "transformers/ViltModel",
    "transformers/GPT2LMHeadModel (train)",
    "timm/sequencer2d_s",
    "torch_geometric/GCNConv",
    "torch_geometric/TopKPooling",
    "diffusers/DDPMScheduler.step",
    "kornia/Canny",
)
CLEAN = (
    *(entry.key for entry in survey.CLEAN),
    "transformers/BertModel",
    "transformers/LlamaModel",
    "transformers/T5Model",
    "transformers/ViTModel",
    "timm/convnext_atto",
    "timm/resnet18",
    "timm/vit_tiny_patch16_224",
    "torch_geometric/SAGEConv",
    "diffusers/UNet2DModel",
    "segmentation-models-pytorch/Unet",
)
PAIRS = 5
"""Compilations with and without the recorder, in one process."""


def recorder(built: Built) -> dict[str, Any]:
    """Median seconds of a compilation from reset, `plain` and `recorded`, in alternating order."""
    from fullgraph.compiler.recorder import record

    model, args, kwargs = built

    def compile_once(recorded: bool) -> float:
        torch._dynamo.reset()
        gc.collect()
        torch.manual_seed(0)
        start = perf_counter()
        with record(model) if recorded else nullcontext():
            torch.compile(model, backend="eager")(*args, **kwargs)
        return perf_counter() - start

    compile_once(False)
    compile_once(True)
    times: dict[bool, list[float]] = {False: [], True: []}
    for pair in range(PAIRS):
        for recorded in (False, True) if pair % 2 else (True, False):
            times[recorded].append(compile_once(recorded))
    return {"plain": median(times[False]), "recorded": median(times[True])}
