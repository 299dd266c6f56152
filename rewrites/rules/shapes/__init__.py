"""NumPy and tensors where Python numbers would do: sizes, loops, grids."""
