"""Programs of one construct each, which `docs/constructs.py` traces."""
