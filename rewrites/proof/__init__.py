"""Proof that rewritten code does what the original does."""
