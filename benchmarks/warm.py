"""Importing this module pays for imports and for the compiler's first use, once for every trial."""

from importlib import import_module

import torch

from benchmarks.models import survey
from benchmarks.models.vision_ops import load_torchvision
from benchmarks.trial import FULLGRAPH, SIDES, TORCH, attempt

torch.set_num_threads(1)
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
    import_module(library)
for side in (TORCH, FULLGRAPH):
    for entry in (survey.CLEAN[0], survey.BREAKING[0]):  # what a break needs is loaded, too
        attempt(SIDES[side], entry.build)
torch._dynamo.reset()
