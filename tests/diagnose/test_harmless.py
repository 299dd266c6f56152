"""Explaining leaves the model, its inputs, the RNG, the configs and the caches as they were."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
import pytest
import torch
from torch import nn

from fullgraph import explain
from fullgraph.compiler.isolation import choose_process, state_digest
from tests.minifier.unforkable_process import unforkable_process

pytestmark = pytest.mark.compiles

SEEN: list[int] = []


class Trainee(nn.Module):
    """Everything a forward can change, and two graph breaks."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.5)
        self.shared = nn.Parameter(torch.ones(4, 1, 1).share_memory_())
        self.register_buffer("queue", torch.zeros(3).share_memory_())
        self.steps = 0
        self.log: list[float] = []
        self.seen: dict[str, int] = {}
        self.conv.register_forward_hook(self._count)
        self.conv.register_full_backward_hook(lambda *args: None)

    def _count(self, *args: object) -> None:
        self.seen["conv"] = self.seen.get("conv", 0) + 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        self.steps += 1
        self.queue[self.steps % 3] += 1
        y = self.drop(self.norm(self.conv(x))) * self.shared
        self.log.append(y.sum().item())
        SEEN.append(self.steps)
        print("step", self.steps)
        return y * random.random() + float(np.random.rand())


@pytest.fixture(params=["fork", "process"])
def where(request: pytest.FixtureRequest) -> Iterator[Literal["fork", "process"]]:
    # a process that has touched a device does the work itself
    with unforkable_process() if request.param == "process" else contextlib.nullcontext():
        assert choose_process(())[0] == request.param
        yield request.param


def before_and_after(model: nn.Module, x: torch.Tensor, call: Callable[[], object]) -> None:
    call()  # modules that are loaded on the way are no change
    before = state_digest((model, x, SEEN))
    call()
    after = state_digest((model, x, SEEN))
    assert {k: (v, after.get(k)) for k, v in before.items() if after.get(k) != v} == {}


def test_explain_changes_nothing(where: str) -> None:
    model, x = Trainee().train(), torch.rand(2, 3, 8, 8)
    model(x.clone()).sum().backward()
    before_and_after(model, x, lambda: explain(model, x.clone(), loss=True))
    before_and_after(model, x, lambda: explain(model, x))


def test_the_report_is_the_same_on_both_paths(where: str) -> None:
    found = explain(Trainee().train(), torch.rand(2, 3, 8, 8))
    lines = {cause.expression for cause in found.causes}
    assert {"y.sum().item()", 'print("step", self.steps)'} <= lines
    assert "step 1" in found.output


def test_other_compiled_functions_do_not_compile_again(where: str) -> None:
    compilations = []

    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:
        compilations.append(gm)
        return gm.forward

    def step(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        print(end="")
        return x * 2

    compiled = torch.compile(step, backend=backend)
    compiled(torch.ones(3))
    assert len(compilations) == 2
    explain(step, torch.ones(3))
    explain(compiled, torch.ones(4))
    compiled(torch.ones(3))
    assert len(compilations) == 2


def test_measuring_changes_nothing_either() -> None:
    model, x = Trainee().train(), torch.rand(2, 3, 8, 8)
    before_and_after(model, x, lambda: explain(model, x, unmask=False, measure=True))


def test_ctrl_c_in_the_middle_is_clean() -> None:
    code = """
import os, signal, threading, time, torch
from fullgraph import explain
def forever(x):
    print("in", flush=True)
    while True:
        time.sleep(0.01)
threading.Timer(4.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
state = torch.get_rng_state()
try:
    explain(forever, torch.ones(2))
except KeyboardInterrupt:
    assert torch.equal(state, torch.get_rng_state())
    print("clean")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "clean\n", done.stderr
    assert done.returncode == 0


def test_a_signal_that_kills_the_model_is_reported_as_a_crash() -> None:
    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:
        signal.raise_signal(signal.SIGSEGV)
        return gm.forward

    def step(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = x + 1
        return x

    found = explain(step, torch.ones(3), backend=backend)
    (crash,) = (c for c in found.crashes if c.mode == "default")
    assert crash.error == "SIGSEGV"
    assert [cause.expression for cause in found.causes] == ["x.sum() > 0"]
