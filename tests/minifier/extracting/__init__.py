"""Code as users have it, over several modules: what is extracted from."""
