"""Decisions on the elements of tensors: their tests, their arms, and what replaces them."""
