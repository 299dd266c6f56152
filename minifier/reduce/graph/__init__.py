"""Reducers of FX graphs."""
