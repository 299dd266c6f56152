"""Each stage of Inductor can be replaced by ours alone, and a training step stays the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fullgraph.compiler.lowering import substitution
from fullgraph.compiler.lowering.substitution import STAGES, Stage, SubstitutedBackend

pytestmark = pytest.mark.compiles


def step(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x @ weight).softmax(-1)


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[Stage]:
    """The stages of ours that have run."""
    used: set[Stage] = set()

    def noting(stage: Stage, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            used.add(stage)
            return function(*args, **kwargs)

        return call

    table = noting("decompositions", substitution.tracing_decompositions)
    partition = noting("partitioner", substitution.partition)
    monkeypatch.setattr(substitution, "tracing_decompositions", table)
    monkeypatch.setattr(substitution, "partition", partition)
    monkeypatch.setattr(substitution, "lower", noting("code generation", substitution.lower))
    monkeypatch.setenv("FULLGRAPH_CACHE_DIR", str(tmp_path))
    torch.compiler.reset()
    return used


@pytest.mark.parametrize(
    "backend, stage", [(backend, stage) for backend in STAGES for stage in STAGES[backend]]
)
def test_a_training_step_equals_eager(backend: str, stage: Stage, ours: set[Stage]) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True)
    found = []
    for function in (step, torch.compile(step, backend=SubstitutedBackend(backend, stage))):
        output = function(x, weight)
        found.append([output, *torch.autograd.grad(output.pow(2).sum(), weight)])
    torch.testing.assert_close(*found)
    assert ours == {stage}
