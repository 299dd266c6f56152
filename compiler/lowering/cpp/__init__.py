"""C++ kernels with OpenMP, compiled without torch's headers and called through ctypes."""

from fullgraph.compiler.lowering.codegen import CodeGenerator
from fullgraph.compiler.lowering.cpp.build import find_compiler, load_kernels
from fullgraph.compiler.lowering.cpp.source import write_kernel

CPP = CodeGenerator("cpp", write_kernel, load_kernels)

__all__ = ["CPP", "find_compiler"]
