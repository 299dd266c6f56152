"""OpenMP's idle threads, which a forked child does not have and would wait for."""

from __future__ import annotations

import ctypes
import os

_HARD = 2  # omp_pause_hard


def rest() -> bool:
    """End the OpenMP threads that wait for this thread's next parallel region; it starts new ones.

    A child that is forked then can run parallel code with any number of threads. Returns whether
    that was possible: it takes Linux and OpenMP 5.0 (GCC 9).
    """
    loaded = [ctypes.CDLL(path) for path in _loaded()]
    pauses = [getattr(library, "omp_pause_resource_all", None) for library in loaded]
    return bool(pauses) and all(pause is not None and pause(_HARD) == 0 for pause in pauses)


def _loaded() -> set[str]:
    """The OpenMP libraries in this process; there may be several."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            paths = {line.split(maxsplit=5)[-1].rstrip("\n") for line in maps if "omp" in line}
    except OSError:
        return set()
    names = ("libgomp", "libiomp", "libomp")
    return {path for path in paths if os.path.basename(path).startswith(names)}
