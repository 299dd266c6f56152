"""Importing this module loads what every test needs and nothing of fullgraph, which is mutated."""

import hypothesis  # noqa: F401
import libcst.metadata  # noqa: F401
import networkx  # noqa: F401
import numpy  # noqa: F401
import pytest  # noqa: F401
import torch
import torch._inductor.config

torch.compile(lambda x: x.sin(), backend="aot_eager")(torch.ones(3, requires_grad=True))
torch._dynamo.reset()
