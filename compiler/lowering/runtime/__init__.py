"""Running a plan: steps that allocate buffers and call kernels and extern operators."""

from fullgraph.compiler.lowering.runtime.program import Program, ProgramCode, make_program
from fullgraph.compiler.lowering.runtime.steps import RuntimeStep, make_steps

__all__ = ["Program", "ProgramCode", "RuntimeStep", "make_program", "make_steps"]
