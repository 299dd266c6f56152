"""Run a program on each rung, and find the faulty part of the first rung that fails."""
