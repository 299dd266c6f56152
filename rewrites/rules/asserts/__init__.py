"""Assertions and guards: what a model raises when a tensor is not as it should be."""
