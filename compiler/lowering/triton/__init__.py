"""Triton kernels: one program a block of outer iterations, with the inner ones in a tile.

Writing them needs no Triton; it is imported when they are loaded. With `TRITON_INTERPRET=1` in the
environment they run on CPU tensors.
"""

from fullgraph.compiler.lowering.codegen import CodeGenerator
from fullgraph.compiler.lowering.triton.load import load_kernels
from fullgraph.compiler.lowering.triton.source import write_kernel

TRITON = CodeGenerator("triton", write_kernel, load_kernels)

__all__ = ["TRITON"]
