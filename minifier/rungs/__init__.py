"""The ladder of rungs: a program tried on each, and the faulty part of the first that fails."""
