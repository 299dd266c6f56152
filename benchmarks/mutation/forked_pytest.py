"""pytest on a copy of the checkout, in a fork of a process that has loaded torch."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["benchmarks.mutation.warm"])


def run_forked(root: Path, arguments: list[str], seconds: float) -> tuple[int | None, str]:
    """Return the exit code of pytest in the folder `root`, and what it printed.

    The code is negative if a signal ended it, and None if it took longer than `seconds`.
    """
    with tempfile.NamedTemporaryFile() as output:
        process = _CONTEXT.Process(target=_run, args=(str(root), arguments, output.name))
        process.start()
        process.join(seconds)
        code = process.exitcode
        if process.pid is not None:
            with suppress(ProcessLookupError):  # what it started is ended with it
                os.killpg(process.pid, signal.SIGKILL)
        process.join()
        return code, Path(output.name).read_text(errors="replace")


def _run(root: str, arguments: list[str], output: str) -> None:
    """Run pytest in this process, whose modules of the project come from `root`."""
    os.setsid()
    file = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.chdir(root)
    sys.path.insert(0, root)
    os.environ["PYTHONPATH"] = root
    for name in [name for name in sys.modules if name.partition(".")[0] in _OURS]:
        del sys.modules[name]
    import pytest

    code = pytest.main(arguments)
    sys.stdout.flush()
    os._exit(code)


_OURS = "benchmarks", "tests", "fullgraph"
