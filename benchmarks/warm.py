"""Importing this module pays for imports and for the compiler's first use, once for every trial."""

from importlib import import_module

import torch

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
    attempt(SIDES[side], lambda: (torch.nn.Linear(2, 2), (torch.ones(1, 2),), {}))
torch._dynamo.reset()
