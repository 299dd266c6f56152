"""Decisions that depend on the elements of tensors."""
