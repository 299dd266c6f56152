"""compile(): healthy graphs are torch.compile's; one that is wrong runs lower, alone.

Most bugs here are in backends of the tests' own: they stand where Inductor stands.
"""

from __future__ import annotations

import copy
import logging
import os
import signal
import time
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn as nn

import fullgraph
from fullgraph.compiler.fallback import compile, report

pytestmark = pytest.mark.compiles

Backend = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]


@pytest.fixture(autouse=True, scope="module")
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FULLGRAPH_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        yield


def relu_of_next(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.nextafter(x.bfloat16(), x.bfloat16()))


def breaking(change: Callable[[torch.fx.GraphModule, tuple[Any, ...]], Any]) -> Backend:
    """A backend whose graphs with a relu run `change(graph, inputs)`."""

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        if not any("relu" in str(node.target) for node in module.graph.nodes):
            return module.forward
        return lambda *args: change(module, args)

    return backend


def silent(message: str) -> None:
    pass


class Two(nn.Module):
    """Two graphs; only the first has a relu."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(torch.relu(self.first(x)))
        torch._dynamo.graph_break()
        return torch.sigmoid(self.second(x))


def train(model: Callable[..., torch.Tensor], module: nn.Module) -> list[torch.Tensor]:
    """Outputs, gradients and state of three steps."""
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    seen = []
    for _ in range(3):
        optimizer.zero_grad()
        output = model(torch.randn(8, 16))
        output.pow(2).sum().backward()
        seen += [output.detach().clone()]
        seen += [p.grad.clone() for p in module.parameters() if p.grad is not None]
        optimizer.step()
    return [*seen, *(buffer.clone() for buffer in module.buffers())]


def test_a_healthy_model_trains_as_under_torch_compile() -> None:
    mine = Two()
    theirs = copy.deepcopy(mine)
    compiled = compile(mine)
    got = train(compiled, mine)
    expected = train(torch.compile(theirs), theirs)
    assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True))
    assert [(g.rung, g.checked, g.reasons) for g in report(compiled)] == [
        ("inductor", True, ())
    ] * 2


@pytest.mark.parametrize("bug", ["compile_error", "runtime_error", "accuracy"])
def test_only_the_graph_that_inductor_gets_wrong_goes_down(bug: str) -> None:
    import torch._inductor.config as config

    mine = Two()
    theirs = copy.deepcopy(mine)
    said: list[str] = []
    with config.patch({"cpp.inject_relu_bug_TESTING_ONLY": bug}):
        compiled = compile(mine, log=said.append)
        got = train(compiled, mine)
    expected = train(theirs, theirs)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(expected, got, strict=True))
    assert [g.rung for g in report(compiled)] == ["loops", "inductor"]
    assert len(said) == 1 and "inductor" in said[0] and "fullgraph.minify(" in said[0]


def test_a_zero_tensor_that_kills_the_kernel_does_not_kill_the_process() -> None:
    leaf = torch.randn(3, requires_grad=True)
    (zero,) = torch.autograd.grad(torch.sgn(leaf).sum(), leaf)
    compiled = compile(lambda t: t.exp(), log=silent)
    assert torch.equal(compiled(zero), torch.ones(3))
    (graph,) = report(compiled)
    assert graph.rung == "loops" and "SIGSEGV" in graph.reasons[0]


@pytest.mark.parametrize(
    "function, compiler, reason",
    [
        (relu_of_next, "g++", "loops refuses the graph: the operator aten.nextafter"),
        (lambda x: torch.relu(x), "no-such-compiler", "inductor "),
    ],
    ids=["an operator that loops does not have", "no compiler"],
)
def test_what_loops_cannot_compile_goes_on_down(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], compiler: str, reason: str
) -> None:
    import torch._inductor.config as config

    monkeypatch.setenv("CXX", compiler)
    with config.patch({"cpp.inject_relu_bug_TESTING_ONLY": "compile_error"}):
        compiled = compile(function, log=silent)
        assert torch.equal(compiled(torch.ones(3)), function(torch.ones(3)))
    (graph,) = report(compiled)
    assert graph.rung == "aot_eager_decomp_partition" and graph.reasons[-1].startswith(reason)


def relu(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) + 1


def kill(module: torch.fx.GraphModule, args: tuple[Any, ...]) -> Any:
    os.kill(os.getpid(), signal.SIGSEGV)


def sleep(module: torch.fx.GraphModule, args: tuple[Any, ...]) -> Any:
    time.sleep(1000)


def fail(module: torch.fx.GraphModule, args: tuple[Any, ...]) -> Any:
    raise ValueError("no kernel\nsecond line")


def wrong(module: torch.fx.GraphModule, args: tuple[Any, ...]) -> Any:
    return tuple(output + 1 for output in module(*args))


def wrong_type(module: torch.fx.GraphModule, args: tuple[Any, ...]) -> Any:
    return tuple(output.double() for output in module(*args))


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient / 2


def wrong_gradient(module: torch.fx.GraphModule, args: tuple[Any, ...]) -> Any:
    return tuple(Halved.apply(output) for output in module(*args))


def writes(module: torch.fx.GraphModule, args: tuple[Any, ...]) -> Any:
    outputs = module(*args)
    for arg in args:
        arg.data.add_(1)
    return outputs


BUGS = {
    kill: "crashes with SIGSEGV",
    sleep: "was not done after",
    fail: "raises ValueError: no kernel",
    wrong: "output[0]: expected",
    wrong_type: "output[0] (dtype)",
    wrong_gradient: "input[0]: expected",
    writes: "input[0]: expected",
}


@pytest.mark.parametrize("bug", BUGS)
def test_each_kind_of_failure_is_noticed_and_told(bug: Callable[..., Any]) -> None:
    compiled = compile(relu, backend=breaking(bug), seconds=3, log=silent)
    x = torch.tensor([1.0, -1.0], requires_grad=True)
    for _ in range(2):
        x.grad = None
        output = compiled(x)
        output.sum().backward()
        assert output.tolist() == [2.0, 1.0] and output.dtype == torch.float32
        assert x.tolist() == [1.0, -1.0] and x.grad is not None and x.grad.tolist() == [1.0, 0.0]
    (graph,) = report(compiled)
    assert graph.rung == "eager" and BUGS[bug] in graph.reasons[0]
    assert graph.function == "relu" and graph.file.endswith("test_fallback.py")


def test_a_backend_that_raises_while_it_compiles_is_noticed() -> None:
    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        raise NotImplementedError("later")

    compiled = compile(relu, backend=backend, log=silent)
    assert compiled(torch.zeros(1)).tolist() == [1.0]
    assert "raises NotImplementedError: later" in report(compiled)[0].reasons[0]


def test_the_logger_warns_once_with_the_command() -> None:
    compiled = compile(relu, backend=breaking(wrong))
    with unittest.TestCase().assertLogs("fullgraph", logging.WARNING) as logged:
        for size in (2, 2, 3, 4):
            compiled(torch.ones(size))
    assert len(report(compiled)) == 2  # fixed size, then any
    (record,) = logged.records
    assert "test_fallback.py:relu`" in record.getMessage()
    assert "output[0]: expected 2, got 3" in record.getMessage()


def test_a_result_nearer_to_float64_than_eagers_is_no_failure() -> None:
    def double(module: torch.fx.GraphModule, args: tuple[Any, ...]) -> Any:
        wide = copy.deepcopy(module).double()(*(arg.double() for arg in args))
        return tuple(output.float() for output in wide)

    def cancelling(x: torch.Tensor) -> torch.Tensor:
        return (torch.relu(x) + 1e6 - 1e6) * 100

    compiled = compile(cancelling, backend=breaking(double))
    x = torch.rand(100)
    assert not torch.allclose(compiled(x), cancelling(x))
    assert report(compiled)[0].reasons == ()


def test_a_jump_that_rounding_alone_moves_is_no_failure() -> None:
    def rounded(module: torch.fx.GraphModule, args: tuple[Any, ...]) -> Any:
        return module(*(arg * (1 + 1e-7) for arg in args))

    def jumps(x: torch.Tensor) -> torch.Tensor:
        return (torch.relu(x) * 1e7).long() % 10

    compiled = compile(jumps, backend=breaking(rounded))
    x = torch.rand(1000)
    assert not torch.equal(compiled(x), jumps(x))
    assert report(compiled)[0].reasons == ()


def test_random_numbers_of_its_own_are_no_failure_but_their_dtype_is() -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + torch.rand(4)

    compiled = compile(noisy, backend=breaking(wrong), log=silent)
    compiled(torch.ones(4))
    (graph,) = report(compiled)
    assert graph.rung == "backend" and not graph.checked
    assert "its values were not compared" in graph.reasons[0]
    torch._dynamo.reset()
    compiled = compile(noisy, backend=breaking(wrong_type), log=silent)
    compiled(torch.ones(4))
    assert report(compiled)[0].rung == "eager"


@pytest.mark.parametrize("bug, rung", [(None, "inductor"), ("accuracy", "loops")])
def test_under_dropout_inductor_is_compared_with_the_random_numbers_of_eager(
    bug: str | None, rung: str
) -> None:
    import torch._inductor.config as config

    with config.patch({"cpp.inject_relu_bug_TESTING_ONLY": bug}):
        compiled = compile(lambda x: torch.relu(nn.functional.dropout(x, 0.5)), log=silent)
        compiled(torch.ones(50))
    assert [(graph.rung, graph.checked) for graph in report(compiled)] == [(rung, True)]


def check_harmless(compiled: Callable[..., Any]) -> None:
    """That the first call does what a later one does, and no more."""
    hooked: list[torch.Tensor] = []
    weight = torch.ones(4, requires_grad=True)
    weight.register_hook(hooked.append)
    for _ in range(2):
        x = torch.ones(4)
        torch.manual_seed(0)
        output = compiled(x, weight)
        after = torch.rand(2)
        assert x.tolist() == [2.0] * 4
        assert weight.grad is None and not hooked and weight.tolist() == [1.0] * 4
        torch.manual_seed(0)
        assert torch.equal(output, draws(torch.ones(4), weight))
        assert torch.equal(after, torch.rand(2))


def draws(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return torch.relu(weight) * x + torch.rand(4)


@pytest.mark.parametrize("backend", ["aot_eager", breaking(fail), breaking(wrong_type)])
def test_the_first_call_draws_and_writes_once(backend: Any) -> None:
    check_harmless(compile(draws, backend=backend, log=silent))


def test_random_numbers_are_those_of_torch_compile() -> None:
    def dropout(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5) + torch.rand(100)

    seen = []
    for compiled in (compile(dropout), torch.compile(dropout)):
        torch.manual_seed(0)
        seen.append([compiled(torch.ones(100)), compiled(torch.ones(100)), torch.rand(1)])
    assert all(torch.equal(a, b) for a, b in zip(*seen, strict=True))


@pytest.fixture
def process_group() -> Iterator[None]:
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_under_a_process_group_it_is_torch_compile(process_group: None) -> None:
    said: list[str] = []
    compiled = compile(relu, backend=breaking(wrong), log=said.append)
    assert compiled(torch.zeros(1)).tolist() == [2.0]
    compiled(torch.zeros(2))
    assert len(said) == 1 and "process group" in said[0]
    assert [g.checked for g in report(compiled)] == [False, False]


@pytest.mark.parametrize("bug", [fail, wrong, wrong_type, wrong_gradient, writes])
def test_where_no_fork_is_safe_it_checks_on_copies(
    process_group: None, bug: Callable[..., Any]
) -> None:
    compiled = compile(relu, backend=breaking(bug), check="first", log=silent)
    x = torch.tensor([1.0, -1.0], requires_grad=True)
    assert compiled(x).tolist() == [2.0, 1.0] and x.tolist() == [1.0, -1.0]
    assert BUGS[bug] in report(compiled)[0].reasons[0]


@pytest.mark.parametrize("bug", ["compile_error", "accuracy"])
def test_where_no_fork_is_safe_inductors_graphs_go_down_too(process_group: None, bug: str) -> None:
    import torch._inductor.config as config

    mine = Two()
    theirs = copy.deepcopy(mine)
    with config.patch({"cpp.inject_relu_bug_TESTING_ONLY": bug}):
        compiled = compile(mine, check="first", log=silent)
        got = train(compiled, mine)
    expected = train(theirs, theirs)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(expected, got, strict=True))
    assert [g.rung for g in report(compiled)] == ["loops", "inductor"]


@pytest.mark.parametrize("backend", ["aot_eager", breaking(fail), breaking(wrong_type)])
def test_a_check_on_copies_draws_and_writes_once(process_group: None, backend: Any) -> None:
    check_harmless(compile(draws, backend=backend, check="first", log=silent))


def test_a_graph_for_any_size_is_checked_for_zero_one_and_other() -> None:
    def short(module: torch.fx.GraphModule, args: tuple[Any, ...]) -> Any:
        outputs = module(*args)
        return tuple(o + 1 for o in outputs) if args[0] == 0 else outputs

    compiled = compile(relu, backend=breaking(short), log=silent)
    for size in (5, 7, 1, 0, 0, 1, 6):
        x = torch.zeros(size, 2)
        torch._dynamo.decorators.mark_unbacked(x, 0)
        assert torch.equal(compiled(x), relu(x))
    assert len(report(compiled)) == 1


def test_sizes_that_change_are_compiled_and_checked_as_by_torch_compile() -> None:
    compiled = compile(relu, backend="aot_eager")
    for size in (5, 7, 9, 1):
        assert torch.equal(compiled(torch.ones(size)), torch.full((size,), 2.0))
    assert [g.checked for g in report(compiled)] == [True] * 3


def test_strides_count_when_asked_for() -> None:
    def contiguous(module: torch.fx.GraphModule, args: tuple[Any, ...]) -> Any:
        return tuple(output.contiguous() for output in module(*args))

    for asked, rung in ((False, "backend"), (True, "eager")):
        torch._dynamo.reset()
        compiled = compile(relu, backend=breaking(contiguous), check_strides=asked, log=silent)
        compiled(torch.ones(3, 4).t())
        assert report(compiled)[0].rung == rung


def test_it_decorates_with_and_without_arguments() -> None:
    @compile
    def plain(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @compile(backend="eager", fullgraph=True)
    def given(x: torch.Tensor) -> torch.Tensor:
        print("a break")
        return x + 1

    assert plain(torch.zeros(1)).item() == 1
    with pytest.raises(torch._dynamo.exc.Unsupported):
        given(torch.zeros(1))


def test_check_off_is_torch_compile() -> None:
    compiled = compile(relu, backend=breaking(wrong), check="off")
    assert compiled(torch.zeros(1)).item() == 2


def test_modules_of_one_class_share_their_graphs_as_under_torch_compile() -> None:
    first, second = (compile(nn.Linear(4, 4), backend="aot_eager") for _ in range(2))
    for compiled in (first, second):
        compiled(torch.ones(1, 4))
    assert [len(report(compiled)) for compiled in (first, second)] == [1, 0]


def test_what_it_returns_can_be_copied_and_has_the_models_state() -> None:
    model = nn.Linear(4, 4)
    compiled = compile(model, backend="aot_eager")
    compiled(torch.ones(1, 4))
    twin = copy.deepcopy(compiled)
    assert torch.equal(twin(torch.ones(1, 4)), model(torch.ones(1, 4)))
    assert compiled.state_dict().keys() == torch.compile(model).state_dict().keys()


def test_autocast_no_grad_and_inference_mode_are_those_of_the_call() -> None:
    model = Two().eval()
    x = torch.randn(8, 16)
    for context in (torch.autocast("cpu", torch.bfloat16), torch.no_grad(), torch.inference_mode()):
        torch._dynamo.reset()
        compiled = compile(model, backend="aot_eager")
        with context:
            assert torch.equal(compiled(x), model(x))
        assert [(g.rung, g.checked) for g in report(compiled)] == [("aot_eager", True)] * 2


def test_bad_arguments_are_told_in_one_sentence() -> None:
    for arguments in (
        {"backend": "nothing"},
        {"mode": "max-autotune", "options": {"max_autotune": True}},
        {"check": "always"},
    ):
        with pytest.raises(fullgraph.FullgraphError):
            compile(relu, **arguments)
    with pytest.raises(fullgraph.FullgraphError):
        report(relu)


def test_options_are_a_rung_of_their_own() -> None:
    compiled = compile(relu, options={"cpp.inject_relu_bug_TESTING_ONLY": "accuracy"}, log=silent)
    assert compiled(torch.ones(4)).tolist() == [2.0] * 4
    (graph,) = report(compiled)
    assert graph.rung == "inductor" and graph.reasons[0].startswith("inductor (cpp.")
