"""NumPy in models: which of it is arithmetic of Python numbers, and which of tensors."""
