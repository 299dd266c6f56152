"""Transformations that several rules share."""
