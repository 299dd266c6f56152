"""Compile kernels to shared libraries, and keep those on disk by their content."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.lowering.codegen import KernelSource
from fullgraph.compiler.lowering.cpp.prelude import make_prelude
from fullgraph.compiler.lowering.cpp.special_functions import SPECIAL_FUNCTIONS
from fullgraph.compiler.lowering.disk import cache_folder, digest, write_file

FLAGS = (
    "-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
    "-ffp-contract=off",
    "-fPIC", "-shared", "-fno-exceptions", "-fno-rtti", "-fno-asynchronous-unwind-tables", "-w",
    "-x", "c++", "-",
)  # fmt: skip
"""No flag changes what floating-point operators return: sums only are reordered, as in eager.

A product and a sum are rounded apart, as by eager's two operators.
"""
LIBRARIES = ["-lm"]
_NUMBERS = {"int64": ctypes.c_int64, "float64": ctypes.c_double}
MAX_UNIT = 60_000
"""Most characters of kernels in one translation unit."""


def load_kernels(sources: Iterable[KernelSource]) -> dict[str, Callable[..., None]]:
    """Return the compiled functions of kernels by name; those not on disk are compiled first."""
    wanted = {source.name: source for source in sources}
    if not wanted:
        return {}
    prelude = make_prelude()
    folder = cache_folder() / "loops" / _toolchain_digest(prelude + SPECIAL_FUNCTIONS)
    missing = [source for name, source in wanted.items() if not (folder / name).exists()]
    _compile(missing, prelude, folder)
    functions = {}
    for name, source in wanted.items():
        library = ctypes.CDLL(str(folder / (folder / name).read_text()))
        function = getattr(library, name)
        function.restype = None
        function.argtypes = [
            *[ctypes.c_void_p] * len(source.buffers),
            *[_NUMBERS[one] for one in (*source.numbers, "int64")],  # the last one is `threads`
            *[ctypes.c_void_p] * source.has_error,
        ]
        functions[name] = function
    return functions


def _toolchain_digest(prelude: str) -> str:
    """Return a name for the compiler, its flags, and the instruction set of this machine."""
    path = Path(_require_compiler()).resolve()
    status = path.stat()
    parts = [prelude, *FLAGS, *LIBRARIES, path, status.st_size, status.st_mtime_ns]
    return digest("\0".join(map(str, [*parts, _instruction_set()])))


def find_compiler() -> str | None:
    """Return the path of the C++ compiler, `CXX` or g++; None if there is none."""
    return shutil.which(os.environ.get("CXX") or "g++")


def _require_compiler() -> str:
    found = find_compiler()
    if found is None:
        name = os.environ.get("CXX") or "g++"
        raise FullgraphError(f"backend `loops` needs a C++ compiler: {name!r} was not found")
    return found


def _instruction_set() -> str:
    """Return the CPU's flags, as Linux lists them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return os.uname().machine
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _compile(sources: list[KernelSource], prelude: str, folder: Path) -> None:
    """Compile kernels into libraries in `folder`, one translation unit a core."""
    if not sources:
        return
    folder.mkdir(parents=True, exist_ok=True)
    running = []
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        for number, unit in enumerate(_split(sources)):
            kernels = "".join(source.text for source in unit)
            special = SPECIAL_FUNCTIONS if "special::" in kernels else ""
            text = prelude + special + kernels
            target = Path(temporary, f"{number}.so")
            command = [_require_compiler(), *FLAGS, "-o", str(target), *LIBRARIES]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            running.append((process, unit, text, target))
            assert process.stdin is not None
            process.stdin.write(text)
            process.stdin.close()
        ends = [_wait(process) for process, *_ in running]
        for errors, (process, unit, text, target) in zip(ends, running, strict=True):
            if process.returncode:
                raise RuntimeError(f"{command[0]} failed:\n{errors[:4000]}\n{text}")
            library = f"unit_{digest(text)}.so"
            os.replace(target, folder / library)
            for source in unit:
                write_file(folder / source.name, library)


def _wait(process: subprocess.Popen[str]) -> str:
    """Wait until a compiler has ended; return what it wrote to stderr."""
    assert process.stderr is not None
    with process.stderr as errors:
        text = errors.read()
    process.wait()
    return text


def _split(sources: list[KernelSource]) -> list[list[KernelSource]]:
    """Return the kernels in one unit a core, of about equal length."""
    length = sum(len(source.text) for source in sources)
    count = max(min(os.cpu_count() or 1, len(sources)), -(-length // MAX_UNIT))
    units: list[list[KernelSource]] = [[] for _ in range(count)]
    lengths = [0] * count
    for source in sorted(sources, key=lambda one: (-len(one.text), one.name)):
        least = lengths.index(min(lengths))
        units[least].append(source)
        lengths[least] += len(source.text)
    return [unit for unit in units if unit]
