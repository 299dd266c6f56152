"""Graphs with recorded inputs: the smaller graphs they contain, their values, their identity."""
