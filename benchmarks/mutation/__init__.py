"""Mutation testing of the rooms by the tests that cover them."""
