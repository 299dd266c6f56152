"""Reducers of the inputs of a graph."""
