"""Importing this module pays for imports and for the compiler's first use, once for every case."""

from contextlib import suppress
from importlib import import_module

import torch

from benchmarks import golden_cases
from benchmarks.models.vision_ops import load_torchvision

torch.set_num_threads(1)
load_torchvision()
for library in ("transformers", "timm"):
    with suppress(ImportError):
        import_module(library)
golden_cases.attempt(golden_cases.MODELS["survey/EarlyReturn"])
golden_cases.attempt(golden_cases.RULES["FG301"])
torch._dynamo.reset()
