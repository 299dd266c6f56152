"""Data-dependent branches: their conditions, what each branch assigns, and what replaces them."""
