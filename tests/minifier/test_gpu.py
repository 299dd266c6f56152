"""What takes a GPU. Each program runs in a process of its own: this one must not touch the device,
or no later test could fork."""

import json
import os
import subprocess
import sys
from textwrap import dedent

import pytest

DEVICE = "cuda"
pytestmark = pytest.mark.skipif(not os.path.exists("/dev/nvidiactl"), reason="there is no GPU")

BUG = 'torch._inductor.config.triton.inject_relu_bug_TESTING_ONLY = "{}"'
BEGIN = """
import torch, torch._inductor.config
from torch import nn
device = torch.device("{device}")
{bug}
"""


@pytest.fixture
def run(tmp_path):
    def run(text, *options, bug="", command="minify", code=0):
        file = tmp_path / "program.py"
        start = BEGIN.format(device=DEVICE, bug=bug and BUG.format(bug))
        file.write_text(start + dedent(text))
        out = ["--out", str(tmp_path / "repro.py")] if command == "minify" else []
        done = subprocess.run(
            [sys.executable, "-m", "fullgraph", command, str(file), "--json", *out, *options],
            capture_output=True,
            text=True,
            timeout=1200,
        )
        assert done.returncode == code, done.stderr
        script = (tmp_path / "repro.py").read_text() if out and not code else ""
        return json.loads(done.stdout), script

    return run


NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 6), nn.LayerNorm(6)

    def forward(self, x):
        return self.norm(torch.relu(self.linear(x))).sin()

def build():
    return Net().to(device), torch.randn(2, 6, device=device)
"""


@pytest.mark.parametrize("how", ["compile_error", "runtime_error", "accuracy"])
def test_a_model_comes_down_to_its_relu(run, how):
    found, script = run(NET, "--train", bug=how)
    assert found["first_failing"] == "inductor"
    assert found["standalone"] and found["ops"] == 1 and found["lines"] <= 20
    assert "relu" in script and f'device="{DEVICE}"' in script


def test_a_healthy_model_is_healthy(run):
    told, _ = run(NET, "--train", command="bisect")
    assert set(told["rungs"].values()) == {"ok"}


def test_modules_on_mixed_devices(run):
    found, script = run(
        """
        class Mixed(nn.Module):
            def __init__(self):
                super().__init__()
                self.here, self.there = nn.Linear(4, 4), nn.Linear(4, 4).to(device)

            def forward(self, x):
                return torch.relu(self.there(self.here(x).to(device)))

        def build():
            return Mixed(), torch.randn(2, 4)
        """,
        bug="accuracy",
    )
    assert found["standalone"] and found["ops"] == 1
    assert f'device="{DEVICE}"' in script


def test_autocast_and_the_index_of_a_device_are_kept(run):
    found, script = run(
        """
        first = torch.device(device.type, 0)

        def mixed(x, w):
            with torch.autocast(device.type, dtype=torch.bfloat16):
                return torch.relu(x @ w).to(first) + 1

        def build():
            return mixed, (torch.randn(4, 4, device=first), torch.randn(4, 4, device=first))
        """,
        bug="accuracy",
    )
    assert found["standalone"] and found["ops"] <= 2
    assert f'"{DEVICE}:1"' not in script


def test_an_assertion_on_the_device_gives_no_result(run):
    told, _ = run(
        """
        def outside(x, at):
            return x[at] + 1

        def build():
            return outside, (torch.ones(3, device=device), torch.tensor([7], device=device))
        """,
        command="bisect",
        code=2,
    )
    assert told["first_failing"] is None
    assert "eager" in told["refused"]


def test_random_numbers_of_the_device_are_those_of_eager(run):
    told, _ = run(
        """
        def noisy(x):
            return torch.dropout(x, 0.5, True) + torch.randn_like(x)

        def build():
            return noisy, torch.ones(64, device=device)
        """,
        command="bisect",
    )
    assert set(told["rungs"].values()) == {"ok"}


def test_a_kernel_of_the_user(run):
    found, script = run(
        """
        import triton, triton.language as tl

        @triton.jit
        def double(x, out, n, BLOCK: tl.constexpr):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

        def doubled(x):
            out = torch.empty_like(x)
            double[(1,)](x, out, x.numel(), BLOCK=16)
            return torch.relu(out.sin()) * 3

        def build():
            return doubled, torch.randn(16, device=device)
        """,
        bug="accuracy",
    )
    assert found["standalone"] and found["ops"] == 1
    assert "triton" not in script.replace("config.triton", "")
