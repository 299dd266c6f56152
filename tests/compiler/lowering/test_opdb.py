"""Samples of PyTorch's operator database on the backend `loops`, several in one graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import fullgraph.compiler.lowering.backend  # noqa: F401  # registers the backend
from benchmarks.opdb.samples import Sample, make_sample, sample_names
from benchmarks.opdb.score import compare, run

pytestmark = [pytest.mark.compiles, pytest.mark.slow]
BREAKS = ("equal/bfloat16/2", "nn.functional.linear_cross_entropy.chunked/float64/55")
"""Samples that Dynamo does not capture in one graph."""
NAMES = [name for name in sample_names()[:62] if name not in BREAKS]
GROUPS = [NAMES[start : start + 20] for start in range(0, len(NAMES), 20)]


def together(names: list[str]) -> Sample:
    """Return samples as one: a function that calls them all."""
    samples = [make_sample(name) for name in names]

    def call(*operands: tuple[tuple[Any, ...], dict[str, Any]]) -> list[Any]:
        return [
            one.function(*args, **kwargs)
            for one, (args, kwargs) in zip(samples, operands, strict=True)
        ]

    operands = tuple((one.args, one.kwargs) for one in samples)
    return Sample(", ".join(names), call, operands, {}, True)


@pytest.mark.parametrize("names", GROUPS, ids=range(len(GROUPS)))
def test_samples_agree_with_eager(
    names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FULLGRAPH_CACHE_DIR", str(tmp_path))
    torch.compiler.reset()
    expected = run(together(names))
    sample = together(names)
    compiled = torch.compile(sample.function, backend="loops", fullgraph=True)
    assert compare(run(sample, compiled), expected) == ""
