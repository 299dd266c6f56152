"""Every test starts with a compiler that has forgotten the others."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    import torch

    yield
    torch._dynamo.reset()
