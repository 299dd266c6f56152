"""Statements of a function moved, as they are, into an operator that runs when its turn comes."""
