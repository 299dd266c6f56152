"""Warming the compiler works in whatever surroundings the caller has, and is not counted."""

import contextlib
import copy

import pytest
import torch
from torch._dynamo.utils import counters
from torch._subclasses import FakeTensorMode

from fullgraph.compiler.isolation import run_isolated
from fullgraph.compiler.private import compile_tiny

pytestmark = pytest.mark.compiles


@pytest.mark.parametrize("symbols", [False, True])
@pytest.mark.parametrize(
    "surroundings",
    [contextlib.nullcontext, FakeTensorMode, torch.inference_mode, lambda: torch.device("meta")],
)
def test_the_callers_surroundings_do_not_matter(surroundings, symbols):
    def job(emit):
        before = copy.deepcopy(dict(counters))
        with surroundings():
            compile_tiny("eager", symbols=symbols)
        return dict(counters) == before

    outcome = run_isolated(job, where="fork")
    assert outcome.value is True, outcome
