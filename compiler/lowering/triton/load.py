"""Load Triton kernels: their source is kept on disk, where Triton reads it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.lowering.codegen import KernelSource
from fullgraph.compiler.lowering.disk import cache_folder, digest, write_file

HEADER = """\
import triton
import triton.language as tl

from fullgraph.compiler.lowering.triton import device
"""


def load_kernels(sources: Iterable[KernelSource]) -> dict[str, Callable[..., None]]:
    """Return the functions that launch kernels, by the kernels' names."""
    wanted = {source.name: source for source in sources}
    if not wanted:
        return {}
    if importlib.util.find_spec("triton") is None:
        raise FullgraphError("backend `loops` needs Triton for CUDA tensors: pip install triton")
    text = module_text(wanted.values())
    name = f"kernels_{digest(text)}"
    path = cache_folder() / "loops" / "triton" / f"{name}.py"
    if not path.exists():
        write_file(path, text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: getattr(module, f"launch_{name}") for name in wanted}


def module_text(sources: Iterable[KernelSource]) -> str:
    """Return the text of a module with kernels and the functions that launch them."""
    return "\n\n".join([HEADER, *(source.text for source in sources)])
