"""bisect and minify in a process that has touched a device: a fresh one forks."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from fullgraph import FullgraphError, bisect
from fullgraph.compiler.isolation import choose_process
from fullgraph.compiler.private import get_configs
from fullgraph.minifier.minify import minify
from tests.minifier.unforkable_process import unforkable_process

pytestmark = pytest.mark.compiles


@pytest.fixture(autouse=True)
def run_where_forks_are_safe():
    with unforkable_process():
        assert choose_process(())[0] == "process"
        yield


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 6), nn.LayerNorm(6)
        self.register_buffer("shift", torch.ones(6))

    def forward(self, x):
        return self.norm(torch.relu(self.linear(x) - self.shift)).sin()


def crashing(graph, inputs):
    """A backend that dies."""

    def run(*inputs):
        os.kill(os.getpid(), signal.SIGSEGV)

    return run


def state():
    """What is to be left as it was."""
    return torch.get_rng_state().tolist(), get_configs(), os.environ.copy(), [*sys.path]


@pytest.mark.slow
def test_a_setting_goes_along_and_nothing_is_changed(inductor):
    inductor.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
    net, x = Net().eval(), torch.randn(2, 6)
    before = state()
    with torch.no_grad():
        found = bisect(net, x)
    assert state() == before
    assert found.first_failing == "inductor" and found.failure.kind == "result"
    assert found.culprit.part == "lowerings" and "relu" in found.culprit.what
    assert found.cut.code == "return self.norm(torch.relu(self.linear(x) - self.shift)).sin()"
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    assert not any("fork_server" in Path(f"/proc/{pid}/cmdline").read_text() for pid in children)


@pytest.mark.slow
def test_a_model_comes_down_to_its_relu(inductor, tmp_path):
    inductor.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
    told = []
    out = tmp_path / "repro.py"
    found = minify(Net().eval(), torch.randn(2, 6), loss=True, out=out, progress=told.append)
    assert found.standalone and found.ops == 1 and found.lines <= 12, found
    assert {"bisect", "graph", "script"} <= {each.phase for each in told}
    assert out.read_text() == found.text and [*tmp_path.iterdir()] == [out]


@pytest.mark.slow
def test_a_crash_is_survived():
    found = bisect(lambda x: (x + 1).cos(), torch.randn(3), backend=crashing)
    assert found.first_failing == "crashing"
    assert found.failure.kind == "crash" and found.failure.signature == ("SIGSEGV",)


@pytest.mark.slow
def test_the_source_of_a_break_is_reduced():
    def broken(x):
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        return torch.relu(y).cos()

    found = minify(broken, torch.ones(3), kind="break")
    assert found.standalone and found.unit == "lines", found
    assert "if" in found.text and "cos" not in found.text


def drawn(x, noise):
    noise.mul_(2)
    return torch.dropout(x @ x.t(), 0.5, True) + noise[1:]


@pytest.mark.slow
def test_a_healthy_program_is_healthy():
    base = torch.randn(5, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = bisect(drawn, (torch.randn(4, 4, requires_grad=True) * 2, base), loss=True)
    assert found.healthy, found


SCRIPT = """
import torch
from torch import nn
from fullgraph import bisect
from tests.minifier.unforkable_process import unforkable_process

def helper(x):
    return doubled(nn.functional.relu(x)) + torch.ops.fullgraph_tests.twice(x)

class Block(nn.Module):
    def forward(self, x):
        assert torch.is_inference_mode_enabled()
        return helper(x) + torch.ones(3)

@torch.library.custom_op("fullgraph_tests::twice", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2

doubled.register_fake(torch.empty_like)

if __name__ == "__main__":
    with unforkable_process(), torch.inference_mode(), torch.device("meta"):
        found = bisect(nn.Sequential(Block()), torch.ones(3), backend="aot_eager")
    print(found, found.notes)
"""


@pytest.mark.slow
def test_a_script_goes_along_with_its_operators_and_modes(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    told = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "Nothing fails: every rung" in told.stdout, told
    assert "It was tried in a fresh process" in told.stdout


@pytest.mark.slow
def test_what_cannot_go_along_is_said():
    class Locked(nn.Module):
        def __init__(self):
            super().__init__()
            self.lock = threading.Lock()

        def forward(self, x):
            return x

    with pytest.raises(FullgraphError) as refused:
        bisect(Locked(), torch.ones(1), backend="aot_eager")
    assert "autograd's device threads run here" in str(refused.value)
    assert "cannot pickle '_thread.lock' object: define the model" in str(refused.value)


LONG = """
import time, torch
from fullgraph import bisect
from tests.minifier.unforkable_process import unforkable_process

def slow(x):
    time.sleep(600)

if __name__ == "__main__":
    with unforkable_process():
        bisect(slow, torch.ones(1), backend="aot_eager")
"""


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_where_it_is_ended(sent, tmp_path):
    script = tmp_path / "long.py"
    script.write_text(LONG)
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    running = subprocess.Popen(
        [sys.executable, str(script)],
        env=environment,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while len(all_of_them := family(running.pid)) < 4:  # the one that forks, the bisection, a try
        assert running.poll() is None
        time.sleep(0.1)
    (socket,) = {
        cmdline(pid)[4]
        for pid in all_of_them
        if cmdline(pid)[3:4] == ["fullgraph.compiler.isolation.fork_server_main"]
    }
    running.send_signal(sent)
    assert running.wait(60) != 0
    while any(map(cmdline, all_of_them)):
        time.sleep(0.1)
    if sent == signal.SIGINT:
        assert not Path(socket).parent.exists()
    shutil.rmtree(Path(socket).parent, ignore_errors=True)


def family(pid):
    """A process and those that it started, and so on."""
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *(each for child in children for each in family(child))]
    return []


def cmdline(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []
