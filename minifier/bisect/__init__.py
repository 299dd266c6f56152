"""Which stage of the compiler is wrong, and which part of it."""
