"""What the C++ compiler made of Inductor's kernels, and what it refused, so as not to ask twice."""

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
    """Meanwhile take from `before`, the folder of another Inductor cache, what it has and `folder`,
    the one in use, lacks: their files are named by their content. What the compiler refuses is kept
    in `folder` and refused again."""
    builder: Any = sys.modules.get("torch._inductor.cpp_builder")
    if getattr(builder, "subprocess", None) is not subprocess:
        yield  # not loaded, or a torch that builds in another way
        return
    builder.subprocess = _Subprocess(folder, before)
    try:
        yield
    finally:
        builder.subprocess = subprocess


class _Subprocess:
    """The module `subprocess`, which runs no command whose output is known."""

    def __init__(self, folder: str, before: str | None) -> None:
        self._folder, self._before = folder, before

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    def run(self, command: list[str], **how: Any) -> subprocess.CompletedProcess[bytes]:
        target = Path(command[command.index("-o") + 1]) if "-o" in command[:-1] else Path()
        if target.suffix != ".so" or not target.is_relative_to(self._folder):
            return subprocess.run(command, **how)
        if self._before:
            known = Path(self._before, target.relative_to(self._folder))
            if known.is_file():
                with _written(target) as file:
                    shutil.copyfile(known, file)
                return subprocess.CompletedProcess(command, 0, b"")
        digest = hashlib.sha256("\0".join(command).encode()).hexdigest()
        refused = Path(self._folder, f"{digest}.refused")
        if refused.exists():
            raise subprocess.CalledProcessError(1, command, refused.read_bytes())
        try:
            return subprocess.run(command, **how)
        except subprocess.CalledProcessError as error:
            if _of_the_code(error.stdout or b""):
                with _written(refused) as file:
                    file.write_bytes(error.stdout)
            raise


def _of_the_code(said: bytes) -> bool:
    """Whether the compiler blames what it read, and not the machine: a full disk, too little
    memory."""
    return re.search(rb":\d+:\d+: error: ", said) is not None and b"fatal error" not in said


@contextlib.contextmanager
def _written(path: Path) -> Iterator[Path]:
    """A file that becomes `path` when it is whole."""
    file = path.with_name(f"{path.name}.{os.getpid()}")
    yield file
    file.replace(path)
