"""Python numbers taken out of tensors."""
