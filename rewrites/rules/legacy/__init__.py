"""Arguments, wrappers and attributes that torch keeps for old code."""
