"""Reducers of graphs."""
