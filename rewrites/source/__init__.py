"""Parsed source files, new syntax, and edits written to disk."""
