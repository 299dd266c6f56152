"""Graphs and tensors as Python source."""
