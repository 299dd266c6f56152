"""C++ kernels with OpenMP, compiled without torch's headers and called through ctypes."""

from fullgraph.compiler.lowering.cpp.build import cache_folder, load_kernels
from fullgraph.compiler.lowering.cpp.scalars import STORAGE, index_text
from fullgraph.compiler.lowering.cpp.source import KernelSource, write_kernel

__all__ = ["STORAGE", "KernelSource", "cache_folder", "index_text", "load_kernels", "write_kernel"]
