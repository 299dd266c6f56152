"""Rules that keep a value from recompiling the program when it changes."""
