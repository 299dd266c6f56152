"""What every code generator returns for a kernel, whatever its language."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import sympy

from fullgraph.compiler.lowering.fusion import Kernel
from fullgraph.compiler.lowering.ir import Buffer


@dataclass(frozen=True)
class KernelSource:
    """A function in the language of a code generator, and what it is called with."""

    name: str
    """Name by content: equal kernels have equal names."""
    text: str
    buffers: tuple[str, ...]
    sizes: tuple[sympy.Symbol, ...]
    has_error: bool
    """Whether the last argument is a flag that is set if a position is out of range."""
    arguments: tuple[str, ...]
    """Python text of each argument: of the buffers, the sizes, and what the language adds."""


@dataclass
class Arguments:
    """Parameters of a kernel: buffers and symbols of sizes, in the order of their first use."""

    buffers: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Name and type of each buffer's pointer."""
    written: set[str] = field(default_factory=set)
    sizes: dict[sympy.Symbol, str] = field(default_factory=dict)
    has_error: bool = False

    def pointer(self, buffer: str, type_: str) -> str:
        """Return the pointer to a buffer."""
        if buffer not in self.buffers:
            self.buffers[buffer] = (f"b{len(self.buffers)}", type_)
        return self.buffers[buffer][0]

    def size(self, symbol: sympy.Symbol) -> str:
        """Return the parameter for a symbol of a size."""
        return self.sizes.setdefault(symbol, f"n{len(self.sizes)}")


@dataclass(frozen=True)
class CodeGenerator:
    """A language of kernels: how one is written, and how its functions are loaded."""

    name: str
    write: Callable[[Kernel, dict[str, Buffer], frozenset[str]], KernelSource]
    """Takes a kernel, all buffers, and the names of those that something else reads."""
    load: Callable[[Iterable[KernelSource]], dict[str, Callable[..., None]]]
    """Returns the functions of kernels by name; those not on disk are compiled first."""


def cache_folder() -> Path:
    """Return the folder of compiled kernels: `FULLGRAPH_CACHE_DIR`, or one in the user's cache."""
    given = os.environ.get("FULLGRAPH_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(given, "loops") if given else Path(home, "fullgraph", "loops")
