"""Every test starts with a compiler that has forgotten the others, their settings and modules."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recorded import recorded_for

os.environ.setdefault("HF_HUB_OFFLINE", "1")
gc.set_threshold(100_000, 20, 100)  # else an eighth of the time goes into looks at what all lives


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every second file first, each half with the longest tests first: two processes begin at the
    halves, and what is left for one of them at the end is short."""
    files = sorted(
        {item.path for item in items}, key=lambda path: ("minifier" not in path.parts, path)
    )
    rank = {path: (number % 2, number) for number, path in enumerate(files)}
    items.sort(key=lambda item: rank[item.path])


def pytest_collectstart(collector: pytest.Collector) -> None:
    if isinstance(collector, pytest.Module):  # which makes models and inputs as it is imported
        _seed(collector)


def _seed(node: pytest.Item | pytest.Collector) -> None:
    """Give a test the same random numbers in each run, and no two tests the same."""
    import numpy as np
    import torch

    seed = zlib.crc32(node.nodeid.encode())
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


@pytest.fixture(scope="session", autouse=True)
def _warm() -> None:
    from fullgraph.compiler.isolation import preload_dynamic_shapes, preload_dynamo
    from fullgraph.compiler.private import skip_guard_profiling

    preload_dynamo()  # before a test's first backward, see there
    preload_dynamic_shapes()
    skip_guard_profiling()  # torch empties the processor's caches for it, at each compilation
    _into_huge_pages()


@pytest.fixture(autouse=True)
def own_errors(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Errors of our own that cost a row of a report, and a test that expects none in that row."""
    from fullgraph.compiler import errors

    describe, found = errors.describe_own_error, []

    def note(error: Exception) -> str:
        found.append(describe(error))
        return found[-1]

    monkeypatch.setattr(errors, "describe_own_error", note)
    yield found
    assert not found


def _into_huge_pages() -> None:
    """Move what is in memory into pages of 2 MiB where Linux can: thousands of forks are made of
    this process, and each copies its page table."""
    size, collapse = 1 << 21, 25  # MADV_COLLAPSE; where it is not known, nothing happens
    libc = ctypes.CDLL(None)
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, access, _, _, inode, *name = line.split()
        if (access, inode) == ("rw-p", "0") and name in ([], ["[heap]"]):
            start, end = (int(edge, 16) for edge in span.split("-"))
            start, end = start + -start % size, end - end % size
            if start < end:
                libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), collapse)


@pytest.fixture(autouse=True)
def _no_answers_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, request: object
) -> None:
    """No test finds what another one left in the cache folder of the commands."""
    folder = tmp_path_factory.getbasetemp() / f"answers-{id(request)}"
    monkeypatch.setenv("FULLGRAPH_CACHE", str(folder))


@pytest.fixture(autouse=True)
def _forgotten(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    import torch._dynamo
    import torch._inductor.config

    from fullgraph.compiler.private import get_configs, set_configs

    before = get_configs()
    modules, path = {*sys.modules}, [*sys.path]
    _seed(request.node)
    with recorded_for(request.path):
        yield
    torch._dynamo.reset()
    set_configs(before)
    folder = str(tmp_path_factory.getbasetemp())
    for name in sys.modules.keys() - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(folder):
            del sys.modules[name]
    sys.path[:] = path
