"""Graphs as source: what a person would write, and the same graph when Dynamo captures it again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional as F

from fullgraph.minifier.emit.emit import source
from fullgraph.minifier.emit.program_text import ProgramText, Unwritable

pytestmark = pytest.mark.compiles


def capture(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, list[Any]]:
    """The first graph that Dynamo captures, with its inputs."""
    found: list[tuple[Any, list[Any]]] = []

    def backend(graph: Any, inputs: list[Any]) -> Any:
        found.append((graph, inputs))
        return graph

    torch._dynamo.reset()
    torch.compile(function, backend=backend, **options)(*args)
    return found[0]


def written(function: Callable[..., Any], *args: Any, **options: Any) -> ProgramText:
    return source(*capture(function, *args, **options))


def says(program: ProgramText, text: str) -> None:
    assert program.function == dedent(text).strip()


class Loaded(ModuleType):
    """A program as a module, which has a file, as Dynamo and autograd.Function want it."""

    def __init__(self, program: ProgramText, folder: Path) -> None:
        super().__init__("written")
        lines = ("import torch", *program.imports, program.function, program.inputs)
        path = folder / "written.py"
        path.write_text("\n".join(lines))
        exec(compile(path.read_text(), str(path), "exec"), vars(self))
        self.args = tuple(getattr(self, name) for name in program.arguments)


X = torch.arange(16.0).reshape(4, 4)


def test_public_names_and_operators() -> None:
    program = written(lambda x: F.gelu(F.softshrink(x, 0.5)) + x.view(-1)[0], X)
    says(
        program,
        """
        def f(x):
            gelu = torch.nn.functional.gelu(torch.nn.functional.softshrink(x, 0.5))
            return gelu + x.view(-1)[0]
        """,
    )
    assert program.inputs == "x = torch.arange(16.0).reshape(4, 4)"
    assert program.places == {"input[0]": "x"} and program.outputs == 1


def test_a_module_becomes_a_function_of_its_parameters() -> None:
    says(
        written(nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 3)), X),
        """
        def f(weight, bias, x, weight2, bias2):
            input = torch.nn.functional.linear(x, weight, bias)
            input_1 = torch.nn.functional.relu(input, inplace=False)
            return torch.nn.functional.linear(input_1, weight2, bias2)
        """,
    )


def test_regions_become_with() -> None:
    def function(x: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            with torch.no_grad():
                z = y * 2
        return y, z + 1

    says(
        written(function, X),
        """
        def f(x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = x @ x
                with torch.no_grad():
                    z = y * 2
            return y, z + 1
        """,
    )


def test_writes_stay_statements_in_their_order() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        z = y * 2
        y[0] = 1
        y[1:, 2] += 3
        y.relu_()
        return y + z

    program = written(function, X)
    says(
        program,
        """
        def f(x):
            y = x.clone()
            z = y * 2
            y[0] = 1
            y[1:, 2] += 3
            y.relu_()
            return y + z
        """,
    )
    assert not program.mutates  # y is no input
    assert written(lambda x: x.add_(1), X.clone()).mutates


def test_several_results_are_unpacked() -> None:
    program = written(lambda x: sum(x.chunk(2)), X)
    says(
        program,
        """
        def f(x):
            element, element_1 = x.chunk(2)
            return 0 + element + element_1
        """,
    )


def test_branches_become_functions() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))

    says(
        written(function, X),
        """
        def f(x):
            def true_fn(x):
                return (x.sin(),)

            def false_fn(x):
                return (x.cos(),)

            return torch.cond(x.sum() > 0, true_fn, false_fn, (x,))[0]
        """,
    )


def test_sizes_are_read_off_the_tensor() -> None:
    program = written(lambda x: x.view(x.shape[0] * 2, -1) / x.shape[0], X, dynamic=True)
    says(
        program,
        """
        def f(x):
            return x.view(x.shape[0] * 2, -1) / x.shape[0]
        """,
    )
    assert program.arguments == ("x",)


def test_a_float_that_dynamo_made_a_tensor_of_is_a_float() -> None:
    program = written(lambda x, p: x * p, X, 0.25, dynamic=True)
    assert program.inputs.splitlines()[1] == "p = 0.25"
    assert program.function.endswith("return x * p")


def test_a_collective_brings_a_process_group() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    reduced = graph.call_function(torch.ops._c10d_functional.all_reduce, (x, "sum", "0"))
    graph.output((graph.call_function(torch.ops._c10d_functional.wait_tensor, (reduced,)),))
    program = source(torch.fx.GraphModule(nn.Module(), graph), (X,))
    assert program.prelude.startswith("torch.distributed.init_process_group(")
    assert 'torch.ops._c10d_functional.all_reduce(x, "sum", "0")' in program.function


def test_numpy_is_numpy_again() -> None:
    program = written(lambda a: np.percentile(a, 30) + a.T, np.ones(5))
    assert program.imports == ("import numpy as np",)
    says(
        program,
        """
        def f(a):
            return np.percentile(a.numpy(), 30) + a.numpy().T
        """,
    )


def test_numbers_and_constants() -> None:
    program = written(lambda x: (x * float("inf") + 1j).to(torch.complex64)[..., None, 1:], X)
    says(
        program,
        """
        def f(x):
            return (x * float("inf") + 1j).to(torch.complex64)[..., None, 1:]
        """,
    )
    assert program.loss == ""  # nothing asks for a gradient


def test_what_goes_backward() -> None:
    x = X.clone().requires_grad_()
    assert written(lambda x: x * 2, x).loss == "{}.sum()"
    assert written(lambda x: x.sum(), x).loss == "{}"
    assert written(lambda x: x * 2j, x).loss == "torch.view_as_real({}).sum()"
    two = written(lambda x: (x * 2, x.argmax()), x)
    assert two.loss == "sum(y.sum() for y in {} if y.requires_grad)" and two.outputs == 2


def test_the_modes_of_the_call_are_kept() -> None:
    with torch.no_grad():
        program = written(lambda x: x * 2, X)
    assert program.under == ("torch.no_grad()",)


def test_random_numbers_are_drawn_in_order() -> None:
    program = written(lambda x: F.dropout(x) + torch.rand(4), X)
    says(
        program,
        """
        def f(x):
            dropout = torch.nn.functional.dropout(x)
            return dropout + torch.rand(4)
        """,
    )
    assert program.random


def test_aten_graphs() -> None:
    make_fx = torch.fx.experimental.proxy_tensor.make_fx
    graph = make_fx(lambda x: F.softshrink(x), tracing_mode="symbolic")(X)
    program = source(graph, (X,))
    assert "torch.ops.aten.gt.Scalar(torch.ops.aten.abs.default(x), 0.5)" in program.function


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grads[0] * x


@torch.library.custom_op("fullgraph_tests::shifted", mutates_args=())
def shifted(x: torch.Tensor, by: float) -> torch.Tensor:
    return x + by


@shifted.register_fake
def _(x: torch.Tensor, by: float) -> torch.Tensor:
    return torch.empty_like(x)


@torch.compiler.nested_compile_region
def region(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


def transformed(x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(lambda row: row.sum() * 2)(x)


def grad(x: torch.Tensor) -> torch.Tensor:
    return torch.func.grad(lambda y: y.sin().sum())(x)


def checkpointed(x: torch.Tensor) -> torch.Tensor:
    return torch.utils.checkpoint.checkpoint(lambda y: y.sin().cos(), x, use_reentrant=False)


def repeated(x: torch.Tensor) -> torch.Tensor:
    return torch._higher_order_ops.while_loop(lambda y: y.sum() < 300, lambda y: (y + 1,), (x,))[0]


@pytest.mark.parametrize(
    "function",
    [
        transformed,
        grad,
        checkpointed,
        repeated,
        lambda x: Double.apply(x) + 1,
        lambda x: region(x) + region(x * 2),
        lambda x: torch.ops.fullgraph_tests.shifted(x, 1.0) + shifted(x, 2.0),
        lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bilinear"),
        lambda x: torch.linalg.norm(x) + torch.fft.fft(x).abs() + torch.special.erf(x),
        lambda x: torch.where(x > 0, x, -x).masked_fill(x == 0, float("-inf")),
        lambda x: ((x > 0) & (x < 1) | ~(x != 0)).any(),
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
        nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Softmax(1)),
        nn.LSTMCell(4, 3),
        nn.MultiheadAttention(4, 2).forward,
    ],
    ids=lambda function: getattr(function, "__name__", type(function).__name__),
)
def test_gives_the_same_graph_and_the_same_result(function: Any, tmp_path: Path) -> None:
    x = X.clone().requires_grad_()
    args = (x, x, x) if "forward" in getattr(function, "__name__", "") else (x,)
    graph, inputs = capture(function, *args)
    program = source(graph, inputs)
    loaded = Loaded(program, tmp_path)
    second, _ = capture(loaded.f, *loaded.args)
    calls = [[n.name for n in g.graph.nodes if n.op.startswith("call")] for g in (graph, second)]
    assert len(calls[0]) == len(calls[1])
    expected = graph(*inputs)
    got = loaded.f(*loaded.args)
    got = got if isinstance(got, tuple) else (got,)
    torch.testing.assert_close(got, tuple(expected))


@triton.jit
def doubled(x):
    return x * 2


@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, doubled(tl.load(x_ptr + at, mask=at < n)), mask=at < n)


def test_a_triton_kernel_comes_along() -> None:
    from torch._higher_order_ops import triton_kernel_wrap

    table = triton_kernel_wrap.kernel_side_table
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    out = graph.call_function(torch.empty_like, (x,))
    graph.call_function(
        triton_kernel_wrap.triton_kernel_wrapper_mutation,
        kwargs={
            "kernel_idx": table.add_kernel(double_kernel),
            "constant_args_idx": table.add_constant_args({"n": 16, "BLOCK": 16}),
            "grid": [(1, 1, 1)],
            "tma_descriptor_metadata": {},
            "kwargs": {"x_ptr": x, "out_ptr": out},
        },
    )
    graph.output((out,))
    program = source(torch.fx.GraphModule(nn.Module(), graph), (X,))
    assert program.imports == ("import triton", "import triton.language as tl")
    assert program.function.startswith("@triton.jit\ndef doubled(x):")
    assert program.function.endswith(
        dedent(
            """
            def f(x):
                empty_like = torch.empty_like(x)
                double_kernel[1, 1, 1](x_ptr=x, out_ptr=empty_like, n=16, BLOCK=16)
                return empty_like
            """
        ).strip()
    )


def test_long_lines_are_folded() -> None:
    layer = nn.MultiheadAttention(4, 2)
    program = written(layer.forward, X, X, X)
    assert max(map(len, program.function.splitlines())) <= 100
    assert "multi_head_attention_forward(\n        x, x, x, 4, 2," in program.function


def test_what_is_returned_is_folded_too() -> None:
    def several(x: torch.Tensor) -> Any:
        return tuple(torch.nn.functional.leaky_relu(x + number, 0.1) for number in range(3))

    program = written(several, X)
    assert max(map(len, program.function.splitlines())) <= 100
    assert "return (\n" in program.function
    compile(program.function, "repro.py", "exec")


def test_what_cannot_be_written_is_refused() -> None:
    library = torch.library.Library("fullgraph_tests_c", "DEF")
    library.define("opaque(Tensor x) -> Tensor")
    library.impl("opaque", lambda x: x + 1, "CompositeExplicitAutograd")
    library.impl("opaque", lambda x: torch.empty_like(x), "Meta")
    with pytest.raises(Unwritable, match="fullgraph_tests_c::opaque"):
        written(lambda x: torch.ops.fullgraph_tests_c.opaque(x), X)
