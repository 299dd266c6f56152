"""Source text of live code, and live code with edited source."""
