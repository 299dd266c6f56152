"""Every test starts with a compiler that has forgotten the others, and their settings."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
import torch
import torch._inductor.config

from fullgraph.compiler import warm
from fullgraph.compiler.private import settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
gc.set_threshold(100_000, 20, 100)  # else an eighth of the time goes into looks at what all lives


@pytest.fixture(scope="session", autouse=True)
def _warm() -> None:
    warm.up()  # before a test's first backward, see there
    warm.symbols()
    settings.time_no_guards()  # torch empties the processor's caches for it, at each compilation


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    before = settings.configs()
    yield
    torch._dynamo.reset()
    settings.set_configs(before)
