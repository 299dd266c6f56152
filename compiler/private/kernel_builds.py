"""Cache of Inductor's builds of C++ kernels, including failed builds."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def reuse_kernel_builds(folder: str, before: str | None) -> Iterator[None]:
    """Inside the block, copy kernels from an earlier Inductor cache instead of building them.

    `before` is the folder of the earlier cache, or None; `folder` is that of the current one. A
    compile error is stored in `folder`, and raised again for the same compiler command.
    """
    builder: Any = sys.modules.get("torch._inductor.cpp_builder")
    if getattr(builder, "subprocess", None) is not subprocess:
        yield  # not loaded, or this torch builds differently
        return
    builder.subprocess = _CachingSubprocess(folder, before)
    try:
        yield
    finally:
        builder.subprocess = subprocess


class _CachingSubprocess:
    """Stand-in for the module `subprocess` that returns cached results of compiler commands."""

    def __init__(self, folder: str, before: str | None) -> None:
        self._folder, self._before = folder, before

    def __getattr__(self, name: str) -> object:
        return getattr(subprocess, name)

    def run(self, command: list[str], **how: Any) -> subprocess.CompletedProcess[bytes]:
        """Run a compiler command, or return or raise its cached result."""
        target = Path(command[command.index("-o") + 1]) if "-o" in command[:-1] else Path()
        if target.suffix != ".so" or not target.is_relative_to(self._folder):
            return subprocess.run(command, **how)
        if self._before:
            known = Path(self._before, target.relative_to(self._folder))
            if known.is_file():
                with _write_atomically(target) as file:
                    shutil.copyfile(known, file)
                return subprocess.CompletedProcess(command, 0, b"")
        digest = hashlib.sha256("\0".join(command).encode()).hexdigest()
        refused = Path(self._folder, f"{digest}.refused")
        if refused.exists():
            raise subprocess.CalledProcessError(1, command, refused.read_bytes())
        try:
            return subprocess.run(command, **how)
        except subprocess.CalledProcessError as error:
            if _is_source_error(error.stdout or b""):
                with _write_atomically(refused) as file:
                    file.write_bytes(error.stdout)
            raise


def _is_source_error(output: bytes) -> bool:
    """Whether the compiler reports an error in the source, not a full disk or too little memory."""
    return re.search(rb":\d+:\d+: error: ", output) is not None and b"fatal error" not in output


@contextlib.contextmanager
def _write_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary file that is renamed to `path` once it is complete."""
    file = path.with_name(f"{path.name}.{os.getpid()}")
    yield file
    file.replace(path)
