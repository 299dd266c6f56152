"""NumPy functions that TorchDynamo has no twin of, and numbers taken out of arrays."""
