"""Reducers of what a graph is called with."""
