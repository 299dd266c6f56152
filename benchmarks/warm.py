"""Importing this module pays for imports and for the compiler's first use, once for every trial."""

from contextlib import suppress
from importlib import import_module

import torch

from benchmarks.models import survey
from benchmarks.models.vision_ops import load_torchvision
from benchmarks.trial import FULLGRAPH, SIDES, TORCH, attempt

torch.set_num_threads(1)
with suppress(ImportError):
    load_torchvision()
for library in (
    "transformers",
    "timm",
    "vit_pytorch",
    "x_transformers",
    "torch_geometric.nn",
    "diffusers",
    "segmentation_models_pytorch",
    "kornia",
):
    with suppress(ImportError):  # not all of them are needed for each trial
        import_module(library)
for side in (TORCH, FULLGRAPH):
    for entry in (survey.CLEAN[0], survey.BREAKING[0]):  # what a break needs is loaded, too
        attempt(SIDES[side], entry.build)
torch._dynamo.reset()
