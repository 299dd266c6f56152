"""Loads the compiler once in this process, so that forked children find it loaded."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile

from fullgraph.compiler.private import compile_tiny


@functools.cache
def preload_dynamo() -> None:
    """Run a tiny backward and compile a tiny function, to load Dynamo; later calls do nothing.

    The first compilation spends about a second on imports and tables, which every forked child
    would spend again. Dynamo's counters, metrics and frame numbers stay as they were, and the tiny
    function is removed from its caches.
    """
    compile_tiny("eager")


@functools.cache
def preload_dynamic_shapes() -> None:
    """Compile a tiny function with data-dependent shapes and scalars, to load what they need.

    Forked children then need not load it. Dynamo's counters stay as they were.
    """
    compile_tiny("eager", symbols=True)


def preload_inductor() -> str:
    """Compile a tiny function with Inductor, so that its headers are built; return their folder.

    The folder is `preload_folder()`. Later calls do not compile again. Raises the error of Inductor
    if it cannot build a kernel.
    """
    _compile_with_inductor()
    return preload_folder()


@functools.cache
def _compile_with_inductor() -> bool:
    return compile_tiny("inductor", preload_folder())


@functools.cache
def preload_folder() -> str:
    """Return a temporary folder for what Inductor builds; later calls return the same one.

    It is removed when this process exits. A forked child does not remove its folder: its parent
    removes all temporary files of the child.
    """
    folder = tempfile.mkdtemp(prefix="fullgraph-inductor-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def compiler_environment() -> dict[str, str]:
    """Return environment variables with which a new process reuses what this one has built.

    {"TORCHINDUCTOR_CACHE_DIR": …} names the folder with the headers; another variable says that the
    vector instructions are already tested. They change no result. {} if Inductor was not preloaded.
    """
    if not _compile_with_inductor.cache_info().currsize:
        return {}
    trusted = {"TORCHINDUCTOR_VEC_ISA_OK": "1"} if _compile_with_inductor() else {}
    return {"TORCHINDUCTOR_CACHE_DIR": preload_folder(), **trusted}
