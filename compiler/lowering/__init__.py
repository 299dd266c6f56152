"""Stages after capture, each a function from one plain value to the next."""
