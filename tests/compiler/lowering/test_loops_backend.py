"""The backend `loops` in torch.compile: training, updates of inputs, dynamic shapes, the cache."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import sympy
import torch
from torch import nn

from fullgraph.compiler.errors import UnsupportedOperator
from fullgraph.compiler.lowering import backend
from fullgraph.compiler.lowering.codegen import index_text
from fullgraph.compiler.lowering.cpp.scalars import CPP_INDEX
from fullgraph.compiler.lowering.runtime import Program
from fullgraph.compiler.lowering.runtime.program import size_text
from fullgraph.compiler.private import aot

from . import CODEGEN

pytestmark = pytest.mark.compiles


@pytest.fixture(autouse=True)
def kernel_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FULLGRAPH_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    torch.compiler.reset()
    return tmp_path


class Network(nn.Module):
    """An attention-free block with a norm, a dropout, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(0.2), nn.BatchNorm1d(32)
        )
        self.head = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x)).softmax(-1)


def test_training_step_equals_eager() -> None:
    torch.manual_seed(0)
    model, x, weight = Network(), torch.randn(6, 16), torch.randn(6, 8)
    reference = copy.deepcopy(model)
    programs: list[Program] = []
    compiled = torch.compile(
        model, backend="loops", options={"on_program": programs.append, "codegen": CODEGEN}
    )
    results = []
    for run, owner in ((reference, reference), (compiled, model)):
        torch.manual_seed(1)
        given = x.clone().requires_grad_()
        (run(given) * weight).sum().backward()
        results.append([given.grad, *(p.grad for p in owner.parameters()), *owner.buffers()])
    torch.testing.assert_close(*results)
    assert len(programs) == 2
    names = {name.split(".")[1] for program in programs for name in program.externs}
    assert names == {"addmm", "mm", "native_dropout"}
    assert all(program.kernels < 10 for program in programs)


def test_dynamic_shapes_compile_once() -> None:
    programs: list[Program] = []

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = torch.cat([x, x * 2], 1).view(-1, 2, x.shape[1]).softmax(2)
        return z + y, (z * x.shape[0]).sum(0), z.flatten(1)[:, 1:].mean(1)

    options = {"on_program": programs.append, "codegen": CODEGEN}
    compiled = torch.compile(function, backend="loops", dynamic=True, options=options)
    for rows, columns in ((3, 5), (4, 9), (70, 2)):
        x, y = torch.randn(rows, columns), torch.randn(columns)
        torch.testing.assert_close(compiled(x, y), function(x, y))
    assert len(programs) == 1


def test_inputs_are_updated_and_outputs_alias_them() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.mul_(2)
        y[1:].add_(x[1:])
        base = x + y
        return x.view(-1), base.t(), base[0]

    inputs = [torch.randn(3, 4), torch.randn(3, 4)]
    others = [one.clone() for one in inputs]
    expected = function(*inputs)
    options = {"codegen": CODEGEN}
    actual = torch.compile(function, backend="loops", options=options)(*others)
    torch.testing.assert_close(others, inputs)
    torch.testing.assert_close(actual, expected)
    assert actual[0].data_ptr() == others[0].data_ptr()
    assert actual[1].data_ptr() == actual[2].data_ptr()


def test_a_copy_has_the_strides_of_its_target() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        copied = x.new_zeros(4, 6)
        copied.copy_(x.t())
        order, places = x.sort(stable=True)
        return copied.view(-1) + 1, order, places

    options = {"codegen": CODEGEN}
    x = torch.randn(6, 4)
    actual = torch.compile(function, backend="loops", options=options)(x)
    torch.testing.assert_close(actual, function(x))


def test_weight_norm_trains() -> None:
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(5, 3))
    x, gradients = torch.randn(4, 5), []
    for name in ("eager", "loops"):
        layer.zero_grad()
        torch.compile(layer, backend=name)(x).square().sum().backward()
        gradients.append([one.grad.clone() for one in layer.parameters() if one.grad is not None])
    torch.testing.assert_close(*gradients)


def test_a_backward_compares_what_the_forward_computed() -> None:
    def smallest(x: torch.Tensor) -> torch.Tensor:
        return x.abs().log1p().flatten(0, 1).amin(0)  # the minimum must be found again

    x, gradients = torch.randn(4, 3, 19), []
    for run in (smallest, torch.compile(smallest, backend="loops", options={"codegen": CODEGEN})):
        leaf = x.clone().requires_grad_()
        run(leaf).sum().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients)


def test_equal_blocks_are_one_kernel() -> None:
    programs: list[Program] = []

    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = nn.functional.gelu(nn.functional.layer_norm(x @ weight, (8,)))
        return x

    options = {"on_program": programs.append}
    torch.compile(function, backend="loops", options=options)(torch.randn(4, 8), torch.randn(8, 8))
    assert programs[0].kernels == 4
    assert programs[0].source.count("kernel_") == 4
    calls = {line.split("(")[0] for line in programs[0].source.splitlines() if "kernel_" in line}
    assert len(calls) == 1


def test_one_thread_runs_vectors() -> None:
    programs: list[Program] = []
    options = {"on_program": programs.append}
    compiled = torch.compile(lambda x: x.exp() + 1, backend="loops", options=options)  # type: ignore[arg-type]
    compiled(torch.ones(40_000))
    ((kernel,),) = (one.code.kernels for one in programs)
    assert "parallel for simd" in kernel.text
    assert "if(parallel: threads > 1" in kernel.text  # without a name it would hold for simd, too


def test_kernels_on_disk_are_not_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, compiler = tmp_path / "calls", tmp_path / "compiler"
    compiler.write_text(f'#!/bin/sh\necho called >> {log}\nexec g++ "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    for _ in range(2):
        torch.compiler.reset()
        compiled = torch.compile(lambda x: x.sin() + 1, backend="loops")
        assert float(compiled(torch.zeros(3)).sum()) == 3
    assert log.read_text().splitlines() == ["called"]


def test_a_graph_on_disk_is_not_lowered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[str] = []

    def noting(graph: torch.fx.GraphModule, codegen: object = None) -> Program:
        lowered.append(graph.code)
        return lower(graph, codegen)

    lower = backend.lower
    monkeypatch.setattr(backend, "lower", noting)
    monkeypatch.setattr(aot, "MIN_SAVED", 2)
    model = nn.Sequential(nn.Linear(5, 3), nn.Dropout(0.5))
    counts, gradients = [], []
    for rows, options in ((4, {}), (4, {}), (6, {}), (6, {"on_program": lambda _: None})):
        torch.compiler.reset()
        compiled = torch.compile(
            model, backend="loops", dynamic=True, options={"codegen": CODEGEN, **options}
        )
        for run in (model, compiled):
            torch.manual_seed(0)
            model.zero_grad()
            run(torch.linspace(0, 1, rows * 5).view(rows, 5)).square().sum().backward()
            gradients.append([one.grad for one in model.parameters()])
        torch.testing.assert_close(*gradients[-2:])
        counts.append(len(lowered))
    is_kept = aot._saved_code_type() is not None
    assert counts == ([2, 2, 2, 4] if is_kept else [2, 4, 6, 8])


def test_random_operators_run_in_their_order() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        mask = torch.bernoulli(y.sigmoid())
        return y + torch.rand(x.shape), mask, y

    results = []
    for name in ("eager", "loops"):
        options = {"codegen": CODEGEN} if name == "loops" else None
        torch.manual_seed(0)
        results.append(torch.compile(function, backend=name, options=options)(torch.randn(9)))
    torch.testing.assert_close(*results)


def test_assertions_and_numbers_of_tensors() -> None:
    def function(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        count, found = n.item(), x.nonzero()
        torch._check(count < 9)
        torch._assert_async(x[0] > -5, "x[0] is too small")
        torch._check((x[0] < 2).item())
        is_small = (x[1] < 3).item()
        return x * count + 1, found[:, 0] * 2, x.sum() + found.shape[0], is_small

    options = {"codegen": CODEGEN}
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(function, backend="loops", options=options, fullgraph=True)
        x = torch.tensor([1.0, 0.0, 3.0])
        torch.testing.assert_close(compiled(x, torch.tensor(4)), function(x, torch.tensor(4)))
        with pytest.raises(RuntimeError, match="< 9"):
            compiled(x, torch.tensor(20))
        with pytest.raises(RuntimeError, match="too small"):
            compiled(x - 9, torch.tensor(4))


def test_number_of_a_tensor_that_is_no_integer() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.full((2,), x[0].item()) * x[1].item()

    x = torch.randn(3)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        options = {"codegen": CODEGEN}
        compiled = torch.compile(function, backend="loops", options=options, fullgraph=True)
        torch.testing.assert_close(compiled(x), function(x))


def test_checks_of_extern_operators_run() -> None:
    invert = torch.compile(lambda x: torch.linalg.inv(x) + 1, backend="loops", fullgraph=True)
    x = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    torch.testing.assert_close(invert(x), torch.linalg.inv(x) + 1)
    checked = torch.compile(torch.linalg.inv, backend="aot_eager", fullgraph=True)
    try:
        checked(torch.zeros(2, 2))
    except RuntimeError:  # not on torch 2.11, where no compiled graph holds the check
        with pytest.raises(RuntimeError, match="singular"):
            invert(torch.zeros(2, 2))


def test_size_with_an_unknown_function_is_refused() -> None:
    symbol = sympy.Symbol("s0", integer=True, positive=True)
    for text in (size_text, lambda value: index_text(value, {symbol: "s0"}, CPP_INDEX)):
        with pytest.raises(UnsupportedOperator, match="with sin"):
            text(sympy.sin(symbol))


def test_unsupported_operator_is_refused_by_name() -> None:
    def multiply(z: torch.Tensor) -> torch.Tensor:
        return z.cumprod(0) + 1

    with pytest.raises(Exception, match=r"cumprod.* has no lowering.*test_loops_backend"):
        torch.compile(multiply, backend="loops")(torch.randn(3, dtype=torch.complex64))
    x = torch.randn(3, dtype=torch.bfloat16)
    with pytest.raises(Exception, match=r"aten.nextafter.default is not lowered"):
        torch.compile(torch.nextafter, backend="loops")(x, x)


def test_inputs_without_plain_memory() -> None:
    compiled = torch.compile(lambda x: x.exp() + 1, backend="loops")
    assert compiled(torch._efficientzerotensor((3,))).tolist() == [2.0] * 3
    negative = torch.complex(torch.ones(3), torch.ones(3)).conj().imag
    with pytest.raises(Exception, match="negative bit"):
        compiled(negative)


def test_a_custom_operator_changes_copies_of_its_arguments() -> None:
    @torch.library.custom_op("fullgraph_loops::write", mutates_args={"cache", "others"})
    def write(
        cache: torch.Tensor, at: int, value: torch.Tensor, others: list[torch.Tensor]
    ) -> None:
        cache[at] = value
        others[0].add_(1)

    @torch.library.custom_op("fullgraph_loops::scale", mutates_args={"x"})
    def scale(x: torch.Tensor, scale: torch.Tensor | None = None) -> torch.Tensor:
        return x.mul_(3).sum()

    scale.register_fake(lambda x, scale=None: x.new_empty(()))

    def f(cache, x):
        y = x.sin()
        total = scale(y[1:, ::2])
        write(cache[0], 1, y[0] + 1, [y.t()])
        return y.exp() * total + cache.sum()

    x, runs = torch.randn(4, 6), []
    for one in (f, torch.compile(f, backend="loops", fullgraph=True)):
        cache = torch.zeros(2, 3, 6)
        runs.append((one(cache, x), one(cache, x + 1), cache))
    torch.testing.assert_close(*runs)


def test_a_custom_operator_is_called_as_it_is():
    @torch.library.custom_op("fullgraph_loops::sine", mutates_args=())
    def sine(x: torch.Tensor, factor: int) -> torch.Tensor:
        return x.sin() * factor

    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0].cos() * 3, None

    sine.register_fake(lambda x, factor: torch.empty_like(x))
    sine.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0])
    )

    def f(x):
        return (sine(x * 2, 3) + x).relu()

    x = torch.randn(4, 5)
    runs = []
    for one in (f, torch.compile(f, backend="loops", fullgraph=True)):
        leaf = x.clone().requires_grad_()
        one(leaf).sum().backward()
        runs.append((one(leaf), leaf.grad))
    torch.testing.assert_close(*runs)
