"""Idle OpenMP threads, which a forked child does not have and would wait for forever."""

from __future__ import annotations

import ctypes
import os

_PAUSE_HARD = 2  # omp_pause_hard


def pause_openmp() -> bool:
    """End this thread's idle OpenMP threads, and return whether that worked.

    The next parallel region starts new ones. A child that is forked before that region can run
    parallel code with any number of threads. This needs Linux and OpenMP 5.0 (GCC 9).
    """
    libraries = [ctypes.CDLL(path) for path in _openmp_libraries()]
    pauses = [getattr(library, "omp_pause_resource_all", None) for library in libraries]
    return bool(pauses) and all(pause is not None and pause(_PAUSE_HARD) == 0 for pause in pauses)


def _openmp_libraries() -> set[str]:
    """Return the paths of the OpenMP libraries in this process; there may be several."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            paths = {line.split(maxsplit=5)[-1].rstrip("\n") for line in maps if "omp" in line}
    except OSError:
        return set()
    names = ("libgomp", "libiomp", "libomp")
    return {path for path in paths if os.path.basename(path).startswith(names)}
