"""Abstract interpreter: what a program's expressions may be, and which constructs it meets."""

from fullgraph.rewrites.check.interpreter.interpreter import Interpreter
from fullgraph.rewrites.check.interpreter.machine import Note
from fullgraph.rewrites.check.interpreter.values import Value

__all__ = ["Interpreter", "Note", "Value"]
