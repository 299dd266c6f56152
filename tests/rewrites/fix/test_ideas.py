"""Where no edit is right, the source stays and an idea is told."""

import pytest
import torch

from fullgraph import fix
from tests.text import block

from ..harness import imported

pytestmark = pytest.mark.compiles

HEAD = """\
import copy
import os
import time
import uuid

import numpy as np
import torch
import torch.distributed as dist


"""


@pytest.fixture
def group():
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(
    ("line", "idea"),
    [
        ("dist.barrier()", "call it before or after the compiled region"),
        ("name = uuid.uuid4()", "Make the id in the caller"),
        ("y = np.interp(0.5, [0.0, 1.0], x.detach().numpy()[:2])", "torch.searchsorted"),
        ("y = np.vectorize(lambda v: v + 1)(x.numpy())", "call the function with the whole tensor"),
        ("y = copy.deepcopy(torch.nn.Linear(1, 1))", "Make the copy outside the compiled function"),
    ],
)
def test_an_idea_is_told_and_nothing_is_edited(line, idea):
    module = imported(f"{HEAD}def f(x):\n    x = x * 2\n    {line}\n    return x + 1\n")
    fixes = fix(module.f, torch.randn(4), inductor=False)
    assert not fixes.texts
    assert any(idea in cause.reason for cause in fixes.unfixed), fixes.unfixed
    assert not any("; try: " in cause.reason for cause in fixes.unfixed)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "y = torch.linspace(0, 1, int(x.sum()) % 3 + 1)",
            "pass it in as a Python number beside the tensor",
        ),
        (
            block("""
                for y in x:
                        if np.random.random() < 0.5:
                            break"""),
            "; try: Draw with torch",
        ),
    ],
)
def test_a_refusal_tells_what_to_do(line, reason):
    module = imported(f"{HEAD}def f(x):\n    x = x * 2\n    {line}\n    return x + y.sum()\n")
    reasons = [one.reason for one in fix(module.f, torch.randn(4), inductor=False).unfixed]
    told = [one for one in reasons if reason in one]
    assert told and told[0].count("; try: ") == ("; try: " in reason), reasons
