"""Every test starts with a compiler that has forgotten the others."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from fullgraph.compiler import warm

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warm.up()  # before a test's first backward, see there


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    torch._dynamo.reset()
