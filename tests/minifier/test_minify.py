"""From a failing program to a script that fails in the same way, alone."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fullgraph import FullgraphError, minify
from fullgraph.cli import main
from fullgraph.compiler.isolation import pause_openmp, preload_inductor
from fullgraph.minifier import script_stages
from fullgraph.minifier.reduce import stages
from fullgraph.minifier.reduce.source import statements
from fullgraph.minifier.repro import fresh_interpreter as fresh
from tests.text import block

pytestmark = pytest.mark.compiles

SECONDS = 240
READER = Path(__file__).with_name("reduce") / "reader.py"


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = (
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.Linear(2 * width, width),
        )

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    """Forty operators and one relu."""

    def __init__(self, width=12, depth=3):
        super().__init__()
        self.before = nn.Sequential(*(Block(width) for _ in range(depth)))
        self.after = nn.Sequential(*(Block(width) for _ in range(depth)))

    def forward(self, x):
        return self.after(torch.relu(self.before(x))).mean(-1)


@pytest.fixture
def relu_bug(inductor):
    def inject(how):
        inductor.cpp.inject_relu_bug_TESTING_ONLY = how

    return inject


def check(found, ops, lines=20):
    """That the script is small and failed alone."""
    assert found.standalone, found
    assert found.ops <= ops and found.lines <= lines, found
    assert "fullgraph." not in found.text
    assert "/" + "home" not in found.text and str(Path.cwd()) not in found.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "depth"),
    [("compile_error", 1), ("accuracy", 3)],
)
def test_a_model_comes_down_to_its_relu(relu_bug, how, depth, tmp_path):
    relu_bug(how)
    out = tmp_path / "relu.py"
    torch.manual_seed(0)
    net = Net(depth=depth).eval().requires_grad_(False)
    found = minify(net, torch.randn(2, 5, 12), out=out)
    check(found, 1)
    if how == "accuracy":  # the other one builds no kernel
        ran = fresh.run(found.text, seconds=SECONDS)  # where nothing is known of the C++ compiler
        assert (ran.code, ran.error) == (1, "AssertionError"), ran
    else:
        assert found.check.signature[0] == "CppCompileError", found.check
    assert "relu" in found.text and "inject_relu_bug_TESTING_ONLY" in found.text
    assert out.read_text() == found.text
    assert [*tmp_path.iterdir()] == [out]
    assert found.bisection.culprit is not None and "relu" in found.bisection.culprit.what
    told = found.to_dict()
    assert (told["first_failing"], told["standalone"], told["ops"]) == ("inductor", True, 1)
    assert "relu" in found.issue().splitlines()[0]


@pytest.mark.real
@pytest.mark.slow
def test_a_crash_by_signal():
    weights = torch.randn(3, requires_grad=True)
    (zero,) = torch.autograd.grad(torch.sgn(weights).sum(), weights)
    found = minify(lambda x, g: (x * 2 + g.exp()).sin(), (torch.randn(3), zero))
    check(found, 1)
    assert found.bisection.failure.kind == "crash"


@pytest.mark.slow
def test_inside_transforms_of_torch_func(relu_bug):
    relu_bug("compile_error")

    def inner(x):
        return (torch.relu(x) * x.cos()).sum()

    found = minify(lambda x: torch.func.hessian(inner)(x.sin()), torch.randn(3))
    check(found, 1)
    assert "aten.relu" in found.text and "functorch" not in found.text


@pytest.mark.slow
def test_wrong_metadata():
    found = minify(lambda x: (x.sin().to_mkldnn().to_dense() * 2).cos(), torch.randn(4, 4))
    check(found, 2)
    assert found.bisection.first_failing == "aot_eager"


def hanging(module):
    while True:
        time.sleep(1)


def eating(module):
    eaten = []
    while True:
        eaten.append(torch.ones(1 << 26))


def sleeping(module):
    def call(*args):
        time.sleep(0.02)
        return module(*args)

    return call


@pytest.mark.parametrize(
    ("compile_relu", "kind", "limits"),
    [
        (hanging, "hang", {"seconds": 2}),
        (eating, "memory", {"memory": 1}),
        (sleeping, "slow", {"kind": "slow"}),
    ],
)
def test_limits(compile_relu, kind, limits):
    def backend(module, inputs):
        broken = any("relu" in str(node.target) for node in module.graph.nodes)
        return compile_relu(module) if broken else module.forward

    found = minify(
        lambda x: (x.sin() * 2).relu().sum(-1), torch.randn(3), backend=backend, **limits
    )
    assert found.bisection.failure.kind == kind
    assert found.ops == 1 and "relu" in found.text
    assert found.standalone is (kind != "memory"), found.notes
    assert found.standalone or "register_backend" in found.notes[-1]


@pytest.mark.real
@pytest.mark.slow
def test_what_dynamo_itself_does_wrong_comes_from_the_source():
    def percentiles(a):
        b = np.sin(a) * 2
        return np.percentile(b, 30)

    found = minify(percentiles, (np.linspace(0.0, 1.0, 5),))
    check(found, 1)
    assert found.bisection.first_failing == "dynamo"


class Logging(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales, self.log = nn.ParameterList([torch.ones(4), torch.ones(4)]), [1]

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.log.append(2)
        return x * self.scales[0] + self.scales[1]


class Forgetful(nn.Module):
    """Compiled, it does not write to its buffer."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(4), persistent=False)

    def forward(self, x):
        y = self.linear(x).sigmoid()
        if not torch.compiler.is_compiling():
            self.seen.add_(y.detach().mean(0))
        return y * 2


def forgetful(x, outputs):
    y = x.sin()
    if not torch.compiler.is_compiling():
        outputs.append(y)
    return y.cos()


def writing(x, n):
    x.add_(n + torch.compiler.is_compiling())
    return x * 2


def held(x):
    z = x.cos() + 1
    return (z,) if torch.compiler.is_compiling() else [z]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "inputs", "where"),
    [
        (nn.Sequential(Forgetful()), (torch.randn(2, 4),), "seen"),
        (Logging(), (torch.randn(4),), "log[0]"),
        (forgetful, (torch.randn(4), []), "input[1][0]"),
        (writing, {"x": torch.randn(4), "n": 3}, "output"),
        (held, (torch.randn(4),), "output"),
    ],
    ids=["module", "attribute", "list", "input", "container"],
)
def test_what_a_call_leaves_behind_is_looked_at_in_the_script(program, inputs, where):
    found = minify(program, inputs)
    check(found, 3, lines=24)
    assert (found.unit, found.check.where) == ("lines", where)


@pytest.mark.slow
def test_a_failure_between_graphs_comes_from_the_source():
    class Gradient(nn.Module):
        def forward(self, x):
            y = torch.relu(x) + 1
            (g,) = torch.autograd.grad((y * 2).pow(3).sum(), x, create_graph=True)
            return g

    found = minify(Gradient(), torch.randn(4, requires_grad=True), loss=True, backend="aot_eager")
    check(found, 3)
    assert "double backward" in found.bisection.failure.message


class Speaking(Block):
    def forward(self, x):
        x = super().forward(x)
        print(x.shape)
        return x


@pytest.mark.slow
def test_a_break_deep_in_a_live_model_is_left_with_its_module(tmp_path):
    blocks = [Speaking(12) if number == 4 else Block(12) for number in range(6)]
    seen, on_disk = [], []
    path = tmp_path / "repro.py"

    def look(progress):
        seen.append(progress)
        if progress.text:
            on_disk.append(path.read_text() == progress.text)

    model = nn.Sequential(*blocks)
    found = minify(model, torch.randn(2, 12), kind="break", progress=look, out=path)
    assert on_disk and all(on_disk)  # a kill leaves the best script
    assert path.read_text() == found.text
    check(found, 1)
    assert found.unit == "lines" and "print" in found.text and "gelu" not in found.text
    sizes = [progress.now for progress in seen if progress.phase == "modules"]
    assert sizes[0] == 24 and sizes[-1] <= 1, sizes


@pytest.mark.slow
def test_a_script_makes_the_earlier_calls():
    def stale(module, inputs):
        first = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
        return lambda *_: module(*first)

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    found = minify(model, torch.randn(2, 4), calls=[torch.randn(2, 4)], backend=stale)
    lines = found.text.splitlines()
    start = next(number for number, line in enumerate(lines) if "torch.compile(" in line)
    calls = [line for line in lines[start:] if "compiled(" in line]
    assert len(calls) == 2 and calls[0] != calls[1], found.text
    assert found.standalone and "register_backend(stale" in found.text, found.text
    assert "torch.manual_seed(0)" in found.text  # the issue quotes two numbers


class Taking(nn.Module):
    """Its forward changes what it is given."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def forward(self, batch):
        x = self.inner(batch.pop("x"))
        torch._dynamo.graph_break()
        return x * 2


@pytest.mark.slow
def test_a_forward_that_takes_from_its_input_is_given_it_again():
    found = minify(Taking(), ({"x": torch.randn(2, 4)},), kind="break")
    check(found, 1)
    assert "graph_break" in found.text and "Linear" not in found.text


@pytest.mark.real
@pytest.mark.slow
def test_a_graph_break_in_a_file_of_300_lines(tmp_path):
    out = tmp_path / "repro.py"
    assert main(["minify", str(READER), "--kind", "break", "--out", str(out)]) == 0
    text = out.read_text()
    assert sum(1 for line in text.splitlines() if line and not line.startswith("#")) <= 12
    assert "fullgraph=True" in text and "print" not in text


def test_refusals_are_told():
    healthy = minify(torch.relu, torch.randn(3), backend="aot_eager")
    assert healthy.refused.startswith("Nothing fails: every rung gives what eager gives, in ")
    assert healthy.text == "" and healthy.path is None
    wrong = minify(lambda x: x @ x, torch.randn(2, 3), backend="aot_eager")
    assert wrong.refused is not None and "fails in eager already" in wrong.refused


def test_a_healthy_program_is_refused_though_its_calls_were_asked_ahead():
    healthy = minify(torch.relu, torch.randn(3), jobs=2)
    assert healthy.refused.startswith("Nothing fails: every rung gives what eager gives, in ")
    assert (healthy.text, healthy.candidates) == ("", 0)


def calls(graph):
    return {node.target for node in graph.graph.nodes if node.op == "call_function"}


def test_a_failure_that_comes_only_sometimes_is_refused(tmp_path):
    def odd(graph, inputs):  # the first of every two times
        seen = tmp_path / "seen"
        if seen.exists():
            seen.unlink()
            return graph
        seen.touch()
        raise ValueError("now and then")

    found = minify(torch.relu, torch.randn(8), backend=odd, jobs=1)
    assert found.refused is not None and "only sometimes" in found.refused


def several(x):
    return torch.sin(torch.cos(torch.relu(x)))


def test_a_call_that_fails_alone_only_sometimes_is_not_taken_for_the_failure(tmp_path):
    """Nor is the program refused, which fails each time."""

    def wrong(graph, inputs):
        once = tmp_path / "once"
        if torch.relu not in calls(graph) or (len(calls(graph)) == 1 and once.exists()):
            return graph
        if len(calls(graph)) == 1:
            once.touch()
        raise ValueError("wrong")

    found = minify(several, torch.randn(8), backend=wrong, jobs=1)
    assert found.refused is None and found.ops == 2
    assert "relu" in found.text


def differently_alone(graph):
    import time

    names = [str(node.target) for node in graph.nodes]
    if any("cos" in name for name in names) and any("relu" in name for name in names):
        time.sleep(1)  # meanwhile the calls are asked
        raise ValueError("together")
    if any("relu" in name for name in names):
        raise TypeError("alone")


@pytest.mark.slow
def test_what_a_call_shows_before_the_program_does_may_be_another_failure(inductor):
    inductor.post_grad_custom_pre_pass = differently_alone
    found = minify(several, torch.randn(8), jobs=2)
    assert found.standalone and "together" in found.check.got, found
    assert found.ops == 2 and "cos" in found.text


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.randn(1 << 20).sin().sum()  # OpenMP's threads wait now, and a forked child has none
    yield
    torch.set_num_threads(before)


def wrong_beside(graph):
    """Turn each relu into its input, where there are threads to share the work."""
    import torch

    if torch.get_num_threads() == 1:
        return
    for node in list(graph.nodes):
        if "relu" in str(node.target):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_what_fails_only_with_several_threads(inductor, two_threads, jobs):
    inductor.post_grad_custom_pre_pass = wrong_beside
    found = minify(lambda x: torch.relu(x).cos(), torch.randn(1 << 16), jobs=jobs)
    check(found, 2)
    assert "relu" in found.text and "torch.set_num_threads(2)" in found.text
    assert "It fails with 2 threads, and not with one." in str(found.bisection)


def test_a_reducer_that_raises_is_skipped_with_one_line(tmp_path, monkeypatch):
    def broken(problem):
        raise RuntimeError("no such luck\nat all")

    monkeypatch.setattr(stages, "reduce_inputs", broken)

    def backend(graph, inputs):
        assert torch.relu not in calls(graph), "wrong"
        return graph

    out = tmp_path / "repro.py"
    found = minify(several, torch.randn(8), backend=backend, jobs=1, out=out)
    assert found.ops == 1 and "relu" in found.text
    (line,) = [note for note in found.notes if "inputs" in note]
    assert line == (
        "The reducer of inputs failed and was skipped (RuntimeError: no such luck): "
        "the traceback is in repro.log."
    )
    assert "Traceback" not in str(found)
    log = out.with_suffix(".log").read_text()
    assert "in broken" in log and "at all" in log


def test_a_pass_of_source_that_raises_is_skipped(tmp_path, monkeypatch):
    def broken(tree):
        raise ValueError(f"{len(tree.text)} characters")

    monkeypatch.setattr(statements, "at_depth", lambda level: broken)
    found = minify(forgetful, (torch.randn(4), []), backend="eager", out=tmp_path / "repro.py")
    assert found.standalone and "cos" not in found.text, found
    (line,) = [note for note in found.notes if "skipped" in note]
    assert line.startswith("The reducer of source (broken) failed and was skipped (ValueError: ")
    assert "Traceback" in (tmp_path / "repro.log").read_text()


def remember(x, seen=[]):  # noqa: B006
    seen.append(x)
    return len(seen) + torch.compiler.is_compiling()


def test_what_the_first_call_leaves_in_a_default_does_not_reach_the_second():
    found = minify(lambda x: x.sin() + remember(x) * remember(x), torch.randn(3), backend="eager")
    assert found.standalone, found


@pytest.mark.parametrize("passes", [True, False])
def test_a_script_that_fails_its_control_is_not_handed_over(passes, monkeypatch):
    control = fresh.ScriptRun(0 if passes else 1)
    alone = fresh.StandaloneCheck(False, "It does not stand.", fresh.ScriptRun(0), control)

    def draft(reduction, **given):
        return script_stages.DraftScript(
            block("""
                # here
                import torch
            """),
            None,
            3,
            alone,
            None,
            (1, 1),
            "operators",
        )

    monkeypatch.setattr(script_stages, "_script_from_graph", draft)
    monkeypatch.setattr(script_stages, "_script_from_source", draft)
    found = minify(lambda x: x + torch.compiler.is_compiling(), torch.randn(3), backend="eager")
    assert "It does not stand." in found.notes and not found.standalone
    assert found.text == (
        block("""
            # here
            # Not standalone: It does not stand.
            import torch
        """)
        if passes
        else ""
    )


def test_stages_above_a_failure_of_dynamo_are_not_loaded(tmp_path):
    found = minify(forgetful, (torch.randn(4), []), jobs=2, out=tmp_path / "repro.py")
    assert found.standalone and found.bisection.first_failing == "dynamo", found
    tried = [name for name, outcome in found.bisection.rungs.items() if outcome is not None]
    assert tried == ["eager", "dynamo"]
    assert ("inductor", "not tried") in found.bisection.table()


MOCKED = """\
from unittest.mock import MagicMock

import torch
from fullgraph import minify


class Model(torch.nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.settings = settings

    def forward(self, x):
        return x.sin() * 2 if isinstance(self.settings, list) else x


found = minify(Model(MagicMock(spec=list)), torch.randn(3), backend="eager", out=out)
"""


@pytest.mark.slow
def test_a_program_that_cannot_be_rebuilt_comes_from_the_file_that_calls(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(MOCKED)
    space = {"__name__": "__main__", "out": tmp_path / "repro.py"}
    exec(compile(MOCKED, str(file), "exec"), space)
    check(space["found"], 0)
    assert "MagicMock(spec=list)" in space["found"].text


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FullgraphError, match="no folder"):
        minify(torch.relu, torch.randn(3), out=tmp_path / "none" / "repro.py")


FILE = """\
import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x).tanh() * 0.5
            if i == 1:
                x = x.relu()
        return x.softmax(-1)


def build():
    torch.manual_seed(0)
    return Net().eval().requires_grad_(False), (torch.randn(4, 8),)
"""


def arguments(file, out):
    return ["minify", str(file), "--out", str(out), "--json", "--jobs", "1"]


def command(file, out):
    return [sys.executable, "-m", "fullgraph", *arguments(file, out)]


def forked(file, out):
    """The command in a fork of this process, which has loaded all it needs; returns its pid.

    What it prints goes to files beside `out`, with the endings `json` and `err`."""
    preload_inductor()
    pause_openmp()
    child = os.fork()
    if not child:
        code = 1
        try:
            sys.stdout, sys.stderr = (out.with_suffix(end).open("w") for end in (".json", ".err"))
            code = main(arguments(file, out))
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return child


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_at_any_moment_it_goes_on(tmp_path):
    file, out, whole = (tmp_path / name for name in ("net.py", "repro.py", "whole.py"))
    file.write_text(FILE)
    os.waitpid(forked(file, whole), 0)
    full = json.loads(whole.with_suffix(".json").read_text())
    journal = out.with_suffix(".journal")
    known = killed = 0
    while True:
        child = forked(file, out)
        ended = False
        while not ended and lines(journal, "key") < known + 5:
            time.sleep(0.02)
            ended = os.waitpid(child, os.WNOHANG) != (0, 0)
        if ended:
            break
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert not out.exists() or out.read_text()
        known, killed = lines(journal, "key"), killed + 1
        left = journal.read_bytes()
    assert killed >= 2
    assert out.read_text() == whole.read_text()
    out.unlink()
    journal.write_bytes(left)  # and the last time in an interpreter of its own
    done = json.loads(subprocess.run(command(file, out), capture_output=True, check=True).stdout)
    assert out.read_text() == whole.read_text()
    assert not journal.exists()
    assert done["cached"] >= full["cached"] + known - 1
    assert (done["ops"], done["standalone"]) == (full["ops"], True)


def lines(journal, word):
    text = journal.read_text() if journal.exists() else ""
    return sum(1 for line in text.splitlines() if word in line)


@pytest.mark.real
@pytest.mark.slow
def test_ctrl_c_leaves_the_best_so_far(tmp_path):
    file, out = tmp_path / "net.py", tmp_path / "repro.py"
    file.write_text(FILE)
    child = forked(file, out)
    while lines(out.with_suffix(".journal"), '"graph ') < 4:
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
        time.sleep(0.02)
    os.kill(child, signal.SIGINT)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    assert "Traceback" not in out.with_suffix(".err").read_text()
    assert "relu" in out.read_text()


@pytest.mark.real
@pytest.mark.slow
def test_the_budget_gives_the_best_so_far(tmp_path):
    file, out = tmp_path / "net.py", tmp_path / "repro.py"
    file.write_text(FILE)
    assert main(["minify", str(file), "--out", str(out), "--budget", "0.1"]) == 0
    assert "relu" in out.read_text()


def test_the_command_says_in_one_sentence_that_nothing_fails(tmp_path, capsys):
    file = tmp_path / "fine.py"
    file.write_text(
        block("""
            import torch
            def build():
                return torch.relu, (torch.ones(3),)
        """)
    )
    assert main(["minify", str(file), "--backend", "dynamo"]) == 0
    assert (
        capsys.readouterr().out.count("every rung gives what eager gives, in 5 runs of dynamo.")
        == 1
    )
