"""Which rung fails first, and which part of it."""

import json
import os
import random
import signal
import time

import pytest
import torch
import torch.nn.functional as F

from fullgraph import FullgraphError, bisect
from fullgraph.cli import main
from tests.text import block

pytestmark = pytest.mark.compiles


def relu(x):
    return torch.relu(x + 1) * 2


@pytest.fixture
def relu_bug():
    """Inductor with one of its own injected bugs."""
    import torch._inductor.config as config

    def inject(how):
        config.cpp.inject_relu_bug_TESTING_ONLY = how

    yield inject
    config.cpp.inject_relu_bug_TESTING_ONLY = None


@pytest.mark.slow
@pytest.mark.parametrize(
    "how, kind",
    [("compile_error", "exception"), ("runtime_error", "exception"), ("accuracy", "result")],
)
def test_an_injected_bug_is_found_in_its_lowering(relu_bug, how, kind):
    relu_bug(how)
    found = bisect(relu, torch.randn(8))
    rungs = found.to_dict()["rungs"]
    assert list(rungs.values()) == ["ok", "ok", "ok", "ok", kind]
    assert found.first_failing == "inductor"
    assert found.culprit is not None and found.culprit.part == "lowerings"
    assert "relu" in found.culprit.what
    assert found.stage.startswith("Inductor's code generation (with ours it passes; with our")
    assert found.to_dict()["beside"] == {"loops": "ok"} and "loops (beside)" in str(found)


def test_inductor_may_have_built_kernels_here_before(relu_bug):
    import torch._inductor.config as config

    with config.patch(compile_threads=2, fx_graph_cache=False):
        torch.compile(lambda x: x.sin() + 3)(torch.randn(9))
    relu_bug("accuracy")
    found = bisect(relu, torch.randn(8), seconds=60, inside=False)
    assert found.failure is not None and found.failure.kind == "result"


@pytest.mark.real
def test_a_decomposition_is_found_by_number_and_name():
    x = torch.randn(2, 4, 8, 8).to(memory_format=torch.channels_last)
    found = bisect(lambda x: torch.cat([x, x], 1).relu(), x)
    assert found.first_failing == "aot_eager_decomp_partition"
    assert found.culprit is not None and found.culprit.part == "decomposition"
    assert found.culprit.what == "aten.cat.default"
    assert found.to_dict()["substitutions"] == {
        "decompositions": "passes",
        "partitioner": "same failure",
    }


def test_a_backend_of_ones_own_can_be_the_top():
    def wrong(module, inputs):
        return lambda *args: [out + 1 for out in module(*args)]

    found = bisect(relu, torch.randn(8), backend=wrong)
    assert [*found.rungs] == ["eager", "dynamo", "wrong"]
    assert found.first_failing == "wrong"
    assert found.failure is not None and found.failure.kind == "result"


def without_tanh(module, inputs):
    """A backend for which tanh is nothing."""

    for node in module.graph.nodes:
        if node.target is torch.tanh:
            node.target = torch.clone
    module.recompile()
    return module.forward


def test_the_graph_is_cut_at_the_call_that_goes_wrong():
    def waves(x):
        x = torch.sin(x)
        x = torch.tanh(x) + 1
        x = torch.cos(x)
        return x * 2

    found = bisect(waves, torch.randn(8), backend=without_tanh)
    assert found.cut is not None
    assert (found.cut.call, found.cut.calls, found.cut.target) == (2, 5, "tanh")
    assert found.cut.code == "x = torch.tanh(x) + 1"
    assert "first wrong after call 2 of 5, tanh, test_bisect.py:" in str(found)
    assert found.to_dict()["cut"]["call"] == 2
    assert bisect(waves, torch.randn(8), backend=without_tanh, inside=False).cut is None


def test_the_graph_that_fails_is_the_one_that_is_cut():
    def parts(x):
        x = torch.sin(x)
        torch._dynamo.graph_break()
        return torch.tanh(x)

    found = bisect(parts, torch.randn(8), backend=without_tanh)
    assert found.cut is not None and (found.cut.call, found.cut.calls) == (1, 1)


def test_a_backend_that_raises_names_its_error():
    def raises(module, inputs):
        raise ValueError(f"node {len(module.graph.nodes)} is not for me")

    found = bisect(relu, torch.randn(8), backend=raises)
    assert found.failure is not None
    assert found.failure.signature[:2] == ("ValueError", "node N is not for me")


def test_other_metadata_is_a_failure():
    def transposed(module, inputs):
        return lambda *args: [out.t().contiguous().t() for out in module(*args)]

    x = torch.randn(3, 4)
    found = bisect(relu, x, backend=transposed)
    assert found.failure is not None and found.failure.signature == ("stride",)
    assert bisect(relu, x, backend=transposed, check_strides=False).refused


@pytest.mark.real
def test_a_wrong_gradient_is_a_failure():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    def wrong(module, inputs):
        return lambda *args: [Wrong.apply(out) for out in module(*args)]

    found = bisect(relu, torch.randn(8, requires_grad=True), loss=True, backend=wrong)
    assert found.failure is not None and found.failure.kind == "gradient"
    assert found.failure.message.startswith("input[0]")


def test_a_lost_mutation_is_a_failure():
    def pure(module, inputs):
        return lambda *args: module(*[a.clone() for a in args])

    found = bisect(lambda x: x.add_(1) * 2, torch.randn(8), backend=pure, check_strides=False)
    assert found.failure is not None and found.failure.kind == "mutation"


@pytest.mark.real
def test_a_crash_by_signal_is_survived():
    def dies(module, inputs):
        os.kill(os.getpid(), signal.SIGSEGV)

    found = bisect(relu, torch.randn(8), backend=dies)
    assert found.failure is not None
    assert (found.failure.kind, found.failure.signature) == ("crash", ("SIGSEGV",))


@pytest.mark.real
@pytest.mark.slow
def test_a_hang_is_survived():
    def sleeps(module, inputs):
        time.sleep(1000)

    found = bisect(relu, torch.randn(8), backend=sleeps, seconds=2)
    assert found.failure is not None and found.failure.kind == "hang"


@pytest.mark.real
def test_a_memory_blow_up_is_survived():
    def greedy(module, inputs):
        return [bytearray(os.urandom(1 << 20)) * 64 for _ in range(1 << 20)]

    found = bisect(relu, torch.randn(8), backend=greedy, memory=0.5)
    assert found.failure is not None and found.failure.kind == "memory"


def test_a_compiler_that_prints_a_gigabyte_is_survived():
    def talks(module, inputs):
        for _ in range(1 << 10):
            os.write(1, b"x" * (1 << 20))
        raise ValueError("done talking")

    found = bisect(relu, torch.randn(8), backend=talks)
    assert found.failure is not None and found.failure.signature[0] == "ValueError"


def test_closer_to_float64_than_eager_is_refused():
    found = bisect(lambda x: F.group_norm(x, 1), torch.full((1, 2, 3), 3e38))
    assert found.failure is None
    assert found.refused is not None and "closer to float64 than eager" in found.refused


def test_what_fails_in_eager_is_refused():
    found = bisect(lambda x: x @ x, torch.randn(3, 4))
    assert found.refused is not None and "fails in eager already" in found.refused


def test_what_does_not_fail_is_refused():
    found = bisect(relu, torch.randn(8))
    assert found.refused.startswith("Nothing fails: every rung gives what eager gives, in ")


def test_eager_that_gives_something_else_each_time_is_refused():
    found = bisect(lambda x: x * time.perf_counter_ns(), torch.ones(3, dtype=torch.float64))
    assert found.refused is not None and "eager itself" in found.refused


def test_a_failure_that_comes_only_sometimes_is_refused(tmp_path):
    seen = tmp_path / "seen"

    def sometimes(module, inputs):
        if not seen.exists():
            seen.touch()
            raise ValueError("the first time only")
        return module

    found = bisect(relu, torch.randn(8), backend=sometimes)
    assert found.refused is not None and "only sometimes" in found.refused


def test_random_numbers_do_not_look_like_a_wrong_result():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5))
    found = bisect(model, torch.randn(2, 8))
    assert found.refused.startswith("Nothing fails: every rung gives what eager gives, in ")


@pytest.mark.real
def test_nothing_of_the_users_changes():
    model = torch.nn.BatchNorm1d(4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x = torch.randn(3, 4)
    states = torch.get_rng_state(), random.getstate()
    bisect(model, x, backend="aot_eager", loss=True)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.weight.grad is None
    assert torch.equal(states[0], torch.get_rng_state()) and states[1] == random.getstate()


@pytest.mark.real
def test_the_ladder_need_not_be_monotone():
    found = bisect(lambda x: x.to_mkldnn().to_dense() * 2, torch.randn(4, 4))
    rungs = found.to_dict()["rungs"]
    assert (rungs["aot_eager"], rungs["inductor"]) == ("metadata", "exception")


def test_a_graph_break_can_be_looked_for():
    def breaks(x):
        print("hello")
        return x + 1

    found = bisect(breaks, torch.randn(3), kind="break")
    assert found.failure is not None and found.failure.kind == "break"
    assert bisect(relu, torch.randn(3), kind="break").refused


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return x * self.steps


def stale(module, inputs):
    """A backend whose compiled graph keeps the inputs of the first call."""
    first = [x.clone() for x in inputs]
    return lambda *_: module(*first)


def test_a_later_call_finds_a_missing_guard():
    x, y, z = torch.randn(8), torch.randn(8), torch.randn(8)
    assert bisect(relu, x, backend=stale).passed
    found = bisect(relu, x, calls=[y, z], backend=stale)
    assert found.first_failing == "stale"
    assert "It fails in call 2, and not if that call is the first one." in found.notes


def test_a_later_call_that_fails_alone_needs_no_others():
    def negative(module, inputs):
        return lambda *args: tuple(y + (y.sum() < 0) for y in module(*args))

    x = torch.ones(8)
    found = bisect(torch.sin, x, calls=[-x], backend=negative)
    assert found.first_failing == "negative" and not found.notes


def test_a_backend_with_the_name_of_a_rung_is_another_rung():
    def eager(module, inputs):
        return lambda *args: tuple(y + 1 for y in module(*args))

    found = bisect(torch.sin, torch.ones(3), backend=eager)
    assert found.first_failing == "eager_backend"


def test_one_recompile_is_no_storm():
    class Caches(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = None

        def forward(self, x):
            if self.cache is None:
                self.cache = x * 0
                return x
            return x + self.cache

    found = bisect(Caches(), torch.randn(3), kind="recompile")
    assert found.failure is None and "not every call compiles again" in found.refused


def test_a_recompile_can_be_looked_for():
    found = bisect(Counter(), torch.randn(3), kind="recompile")
    assert found.failure is not None and found.failure.kind == "recompile"


def test_slowness_can_be_looked_for():
    def slow(module, inputs):
        def call(*args):
            time.sleep(0.02)
            return module(*args)

        return call

    found = bisect(relu, torch.randn(8), backend=slow, kind="slow")
    assert found.failure is not None and found.failure.kind == "slow"


def test_a_kind_that_does_not_exist():
    with pytest.raises(FullgraphError, match="kind must be one of break, recompile, slow"):
        bisect(relu, torch.randn(3), kind="wrong")


def test_the_command(tmp_path, capsys):
    file = tmp_path / "bug.py"
    file.write_text(
        block("""
            import torch
            def build():
                return (lambda x: x.to_mkldnn().to_dense() * 2), (torch.randn(4, 4),)
        """)
    )
    assert main(["bisect", str(file), "--backend", "aot_eager", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["first_failing"] == "aot_eager"
    assert told["rungs"] == {"eager": "ok", "dynamo": "ok", "aot_eager": "metadata"}
    assert main(["bisect", str(file), "--backend", "dynamo"]) == 0
    assert capsys.readouterr().out.count("Nothing fails") == 1
