"""Stages after capture: a cost model, and a backend of its own for torch.compile, `loops`.

`cost` estimates and compiles nothing. The backend goes through `ir` (loops of a graph of ATen
operators), `fusion` (which loops run in one kernel), `cpp` or `triton` (their source and its
build) and `runtime` (the steps that run them). Each is a function from one plain value to the next.
"""
