"""Random numbers of Python and NumPy: who draws them, and tensors that take their place."""
