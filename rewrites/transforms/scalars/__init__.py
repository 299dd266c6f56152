"""Python numbers taken out of tensors: what they are, where they go, what can stand for them."""
