"""Triton kernels of the backend `loops`: in the interpreter, and compiled for an absent GPU."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_map_only

from fullgraph.compiler.errors import UnsupportedOperator
from fullgraph.compiler.lowering.backend import lower
from fullgraph.compiler.lowering.codegen import KernelSource
from fullgraph.compiler.lowering.prims import decompositions
from fullgraph.compiler.lowering.runtime import Program
from fullgraph.compiler.lowering.triton.load import module_text

pytestmark = pytest.mark.compiles
pytest.importorskip("triton")
FOLDER = Path(__file__).parent


def test_every_kind_of_kernel_runs_in_the_interpreter() -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "LOOPS_CODEGEN": "triton"}
    files = [str(FOLDER / name) for name in ("test_loops_operators.py", "test_loops_backend.py")]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "not disk", *files]
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


def program_on_cuda() -> Program:
    """Return the program of a graph whose tensors are on a GPU; there need not be one."""
    inputs = (torch.randn(6, 9000), torch.arange(6))
    graph = make_fx(several_kernels, decompositions(), tracing_mode="fake")(*inputs)
    with FakeTensorMode():
        for node in graph.graph.nodes:
            node.meta["val"] = tree_map_only(torch.Tensor, on_cuda, node.meta.get("val"))
    return lower(graph)


def on_cuda(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cuda:0")


def test_what_triton_lacks_is_refused() -> None:
    graph = make_fx(lambda x: [x.erfinv()], decompositions(), tracing_mode="fake")(torch.randn(6))
    with pytest.raises(UnsupportedOperator, match="no erfinv"):
        lower(graph, "triton")


def test_kernels_compile_for_a_gpu(tmp_path: Path) -> None:
    program = program_on_cuda()
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
