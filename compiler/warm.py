"""Loading the compiler once, so that a forked child finds it loaded."""

from __future__ import annotations

import functools

from fullgraph.compiler.private import warming


@functools.cache
def up() -> None:
    """Run one tiny backward and compile one tiny function; later calls do nothing.

    A first compilation imports and tabulates for about a second, which every forked child would
    do again. Dynamo's counters, metrics and frame numbers are left as they were, and the tiny
    function is forgotten.
    """
    warming.compile_tiny("eager")


@functools.cache
def inductor(cache: str) -> None:
    """The same with Inductor, which builds what all kernels include into the folder `cache`."""
    warming.compile_tiny("inductor", cache)
