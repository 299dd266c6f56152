"""Random numbers, clocks and what else differs from call to call."""
