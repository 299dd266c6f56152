"""Loading the compiler once, so that a forked child finds it loaded."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from collections.abc import Mapping

from fullgraph.compiler.private import preloading as warming


@functools.cache
def up() -> None:
    """Run one tiny backward and compile one tiny function; later calls do nothing.

    A first compilation imports and tabulates for about a second, which every forked child would
    do again. Dynamo's counters, metrics and frame numbers are left as they were, and the tiny
    function is forgotten.
    """
    warming.compile_tiny("eager")


@functools.cache
def symbols() -> None:
    """The same with shapes and numbers that depend on data."""
    warming.compile_tiny("eager", symbols=True)


@functools.cache
def inductor() -> str:
    """The same with Inductor; the `folder` in which it built what all kernels include."""
    _known["TORCHINDUCTOR_CACHE_DIR"] = folder()
    if warming.compile_tiny("inductor", folder()):
        _known["TORCHINDUCTOR_VEC_ISA_OK"] = "1"
    return folder()


@functools.cache
def folder() -> str:
    """A folder for what Inductor builds. It is gone when this process ends; that of a forked child
    is where temporary files are, until somebody takes it away."""
    found = tempfile.mkdtemp(prefix="fullgraph-inductor-")
    atexit.register(shutil.rmtree, found, ignore_errors=True)
    return found


_known: dict[str, str] = {}


def known() -> Mapping[str, str]:
    """Environment variables with which a fresh interpreter need not find out again what this one
    knows of the C++ compiler. They change no result."""
    return dict(_known)
