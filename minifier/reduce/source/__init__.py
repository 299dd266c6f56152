"""How a Python text is read, and the ways in which it gets smaller."""
