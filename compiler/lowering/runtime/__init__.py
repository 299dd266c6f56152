"""Running a plan: steps that allocate buffers and call kernels and extern operators."""

from fullgraph.compiler.lowering.runtime.program import Program, ProgramCode, make_program

__all__ = ["Program", "ProgramCode", "make_program"]
