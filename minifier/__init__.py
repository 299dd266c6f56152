"""Which stage of the compiler is wrong, and the smallest program that shows it."""
