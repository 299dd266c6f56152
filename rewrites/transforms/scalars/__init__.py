"""Python numbers read from tensors: their uses, and the tensor that takes their place."""
