import os

CODEGEN = os.environ.get("LOOPS_CODEGEN", "cpp")
"""Language of the kernels of the backend `loops`; `test_triton.py` runs tests with "triton"."""
