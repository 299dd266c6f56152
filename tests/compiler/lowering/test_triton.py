"""Triton kernels of the backend `loops`: in the interpreter, and compiled for an absent GPU."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves, tree_map_only

from fullgraph.compiler.errors import UnsupportedOperator
from fullgraph.compiler.lowering.backend import lower
from fullgraph.compiler.lowering.codegen import KernelSource
from fullgraph.compiler.lowering.prims import decompositions
from fullgraph.compiler.lowering.runtime import Program
from fullgraph.compiler.lowering.triton.load import module_text

pytestmark = pytest.mark.compiles
triton = pytest.importorskip("triton")
FOLDER = Path(__file__).parent


def test_every_kind_of_kernel_runs_in_the_interpreter() -> None:
    names = "not disk and not strides_of_eager and not gradients_with"
    if tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9):
        # a size is an array there, which NumPy does not convert
        names += " and not dynamic_shapes and not sizes and not last_batch"
    environment = os.environ | {"TRITON_INTERPRET": "1", "LOOPS_CODEGEN": "triton"}
    files = [str(FOLDER / f"test_loops_{name}.py") for name in ("operators", "backend", "sizes")]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", names, *files]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout[-4000:]


def several_kernels(x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
    wide = (x * 2).softmax(1)
    gathered = wide[index].tanh() * x.pow(1.7)
    updated = x.index_put((index,), x * 3)
    half = (x.bfloat16() * 0.1).float()
    scans = x.cumsum(1), x.cummax(1).indices, x[:, :5].logcumsumexp(1)
    others = x.argmax(0), (index // 3) % 2, x.sum(0), (x > 0).any(1)
    return gathered, updated, half, *scans, *others


def lower_on_cuda(function: Callable[..., object], *inputs: torch.Tensor) -> Program:
    """Return the program of a function on a GPU; there need not be one. Scalars are on the CPU."""
    graph = make_fx(function, decompositions(), tracing_mode="fake")(*inputs)
    with FakeTensorMode():
        for node in graph.graph.nodes:
            operands = tree_leaves([one.meta.get("val") for one in node.all_input_nodes])
            move = on_cuda if any(one.is_cuda for one in operands) else on_cuda_with_dims
            node.meta["val"] = tree_map_only(torch.Tensor, move, node.meta.get("val"))
    return lower(graph)


def on_cuda(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cuda:0")


def on_cuda_with_dims(tensor: torch.Tensor) -> torch.Tensor:
    return on_cuda(tensor) if tensor.dim() else tensor


def test_what_triton_lacks_is_refused() -> None:
    graph = make_fx(lambda x: [x.erfinv()], decompositions(), tracing_mode="fake")(torch.randn(6))
    with pytest.raises(UnsupportedOperator, match="no erfinv"):
        lower(graph, "triton")


def test_kernels_compile_for_a_gpu(tmp_path: Path) -> None:
    program = lower_on_cuda(several_kernels, torch.randn(6, 9000), torch.arange(6))
    sources = program.code.kernels
    path = tmp_path / "kernels.py"
    path.write_text(module_text(sources))
    spec = importlib.util.spec_from_file_location("kernels", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert len(sources) > 3
    for source in sources:
        assert "cubin" in compile_for_gpu(module, source, program)
    assert "device='cuda:0'" in program.source
    assert program.source.index("check(error)") > program.source.rindex("kernel_")


def compile_for_gpu(
    module: ModuleType, source: KernelSource, program: Program
) -> dict[str, object]:
    """Return what Triton makes of a kernel for compute capability 9.0, by the stage's name."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    buffers = [program.plan.graph.buffers[name].dtype for name in source.buffers]
    types = {torch.float32: "fp32", torch.int64: "i64", torch.bool: "i1", torch.bfloat16: "bf16"}
    function = getattr(module, source.name)
    signature = {f"b{number}": f"*{types[dtype]}" for number, dtype in enumerate(buffers)}
    signature |= {"error": "*i64"} if source.has_error else {}
    blocks = {key: int(size) for key, size in re.findall(r"(.BLOCK)=(\d+)", source.text)}
    signature |= dict.fromkeys(blocks, "constexpr")
    ordered = {name: signature[name] for name in function.arg_names}
    compiled = compile(ASTSource(function, ordered, blocks), target=GPUTarget("cuda", 90, 32))
    return compiled.asm


def with_tensors_on_the_cpu(
    x: torch.Tensor, scalar: torch.Tensor, other: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    picked = x[torch.tensor([2, 0])] * torch.tensor(3.5)
    return picked + scalar, x.sum().exp(), other.sqrt(), x + torch.rand(())


def test_scalars_and_constants_on_the_cpu_are_copied_to_the_gpu() -> None:
    inputs = (torch.randn(6), torch.tensor(2.0), torch.tensor(3.0))
    program = lower_on_cuda(with_tensors_on_the_cpu, *inputs)
    before, after = program.source.split("def run(inputs)")
    for name in program.plan.graph.constants:
        assert f"{name} = {name}.to('cuda:0')" in before
    for name in ("scalar_1", "other_1", "rand"):
        assert f"{name} = {name}.to('cuda:0')" in after
    assert program.source.count(".cpu()") == 1  # of `other.sqrt()`


def test_an_operator_on_the_cpu_is_refused_in_a_graph_on_a_gpu() -> None:
    with pytest.raises(UnsupportedOperator, match=r"bernoulli.* runs on the CPU"):
        lower_on_cuda(lambda x, p: [x * p.bernoulli()], torch.randn(6), torch.tensor(0.5))


def test_a_concatenation_reads_no_tensor_out_of_its_range() -> None:
    inputs = (torch.randn(3, 5), torch.randn(4, 5), torch.randn(6, 5))
    graph = make_fx(lambda *parts: [torch.cat(parts)], decompositions(), tracing_mode="fake")
    [kernel] = lower(graph(*inputs), "triton").code.kernels
    masks = re.findall(r"tl.load\(b\d .*, in_x & (\w+), other=0\)", kernel.text)
    first, *others = sorted(masks, key=lambda name: int(name[1:]))
    assert len(masks) == 3 and f"{first} = v0 < " in kernel.text
    for mask in others:  # of a later tensor: not in an earlier one, and in its own range
        assert re.search(rf"{mask} = v\d+ & v\d+", kernel.text), kernel.text
    assert f" = {first} == 0" in kernel.text


def test_operands_have_aligned_strides_in_dims_of_size_one() -> None:
    def attend(x: torch.Tensor) -> list[torch.Tensor]:
        heads = (x * 2).view(2, 8, 1, 4).transpose(1, 2)
        return [torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)]

    graph = make_fx(attend, decompositions(), tracing_mode="fake")(torch.randn(2, 8, 4))
    assert ".as_strided((2, 1, 8, 4), (32, 32, 4, 1)" in lower(graph).source
