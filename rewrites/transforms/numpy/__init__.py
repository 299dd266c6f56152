"""NumPy scalars computed from Python numbers, written without NumPy."""

from fullgraph.rewrites.transforms.numpy.python_numbers import PythonNumber, PythonNumberConverter

__all__ = [
    "PythonNumber",
    "PythonNumberConverter",
]
