"""Reducers of Python source text."""
