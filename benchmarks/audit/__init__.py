"""A hostile audit of the rules: programs made to catch a wrong edit, and what fix makes of them.

Each file of `programs` was written by somebody who knew only the page of its rule. `build()` gives
the program with the inputs that `fix` sees, `witnesses()` inputs on which a careless edit gives
something else, and `observe()`, if there is one, what a caller can see beside the results.
"""
