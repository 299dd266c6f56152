"""The command line in a process that has torch loaded."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from fullgraph.cli import main
from fullgraph.compiler.isolation import run_isolated


def fullgraph(*args: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a fork of this process, which need not load torch again."""
    command = list(map(str, args))

    def job(emit: object) -> tuple[int, str, str]:
        if cwd is not None:
            os.chdir(cwd)
            sys.path.insert(0, "")
        with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
            code = main(command)
        return code, output.getvalue(), errors.getvalue()

    outcome = run_isolated(job, where="fork", seconds=240)
    assert outcome.value is not None, outcome
    return subprocess.CompletedProcess(command, *outcome.value)
