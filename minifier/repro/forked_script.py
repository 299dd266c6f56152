"""Execute a script in a forked child as a fresh interpreter would."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import torch

from fullgraph.compiler.private import non_default_config, reset_config
from fullgraph.minifier.repro.script_text import lower_backend

NAME = "repro.py"
"""File name of a script."""
DISABLE = "TORCHDYNAMO_DISABLE"  # TORCH_COMPILE_DISABLE minds fullgraph=True


def execute_script(
    text: str, folder: str, backend: str | None, names: dict[str, object] | None = None
) -> None:
    """Execute a script in this process, which must be a forked child. Raises what it raises.

    It runs as the main program in the empty folder `folder`, with the modes and settings of a fresh
    interpreter. `backend` replaces the one that the script names; None disables compilation. The
    script's global variables are added to `names`, if given.
    """
    if backend is None:
        os.environ[DISABLE] = "1"
    else:
        os.environ.pop(DISABLE, None)
        text = lower_backend(text, backend)
    os.chdir(folder)
    Path(NAME).write_text(text, encoding="utf-8")  # tracebacks and Dynamo read it
    torch.compiler.reset()
    for name in non_default_config():
        reset_config(name)
    main = ModuleType("__main__")
    main.__file__ = NAME
    sys.modules["__main__"] = main
    code = compile(text, NAME, "exec", dont_inherit=True)
    try:
        with ThreadPoolExecutor(1) as pool:  # modes are a thread's own
            pool.submit(exec, code, vars(main)).result()
    finally:
        Path(NAME).unlink(missing_ok=True)
        if names is not None:
            names.update(vars(main))
