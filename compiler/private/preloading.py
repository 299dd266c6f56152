"""Compilation of a tiny function, to load the compiler's modules without other effects."""

from __future__ import annotations

import collections
import contextlib
import copy
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from fullgraph.compiler.private.compile_config import capture_scalars_and_shapes
from fullgraph.compiler.private.kernel_builds import reuse_kernel_builds
from fullgraph.compiler.private.torch_state import inductor_cache_dir


def compile_tiny(backend: str, cache: str | None = None, *, symbols: bool = False) -> bool:
    """Compile and call a tiny function outside the caller's modes; restore Dynamo's counters.

    With `symbols`, its shapes and scalars depend on data. Inductor builds in the folder `cache`,
    which is None for other backends. Returns whether Inductor may assume that the C++ compiler
    supports the processor's vector instructions (`vec_isa_ok`).
    """
    import torch._dynamo as dynamo
    from torch._dynamo import convert_frame, utils

    def static(x: torch.Tensor) -> torch.Tensor:
        return torch.add(x, 1)  # a function of torch, since Dynamo loads more for it

    def symbolic(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0] * x.sum().item()

    tiny = symbolic if symbols else static
    counters = copy.deepcopy(dict(utils.counters))
    metrics: Any = getattr(utils, "_compilation_metrics", None)
    kept = None if metrics is None else collections.deque(metrics, metrics.maxlen)
    number = getattr(convert_frame, "FRAME_COUNTER", None)
    if not os.path.exists("/dev/nvidiactl"):
        # On a CUDA build without a GPU the first backward starts autograd's device threads if it
        # comes after fake tensors, and a forked child has no backward then.
        torch.ones(1, requires_grad=True, device="cpu").backward()
    captures = capture_scalars_and_shapes() if symbols else contextlib.nullcontext()
    outside = _disable_current_modes()
    with torch.random.fork_rng(devices=[]), torch.no_grad(), outside, captures:
        isa_assumed = _compile_into(tiny, backend, cache)
    dynamo.reset_code(tiny.__code__)
    utils.counters.clear()
    utils.counters.update(counters)
    if kept is not None:
        metrics.clear()
        metrics.extend(kept)
    if number is not None:
        convert_frame.FRAME_COUNTER = number
    return isa_assumed


def _compile_into(tiny: Any, backend: str, cache: str | None) -> bool:
    """Compile and call `tiny`; Inductor builds in the folder `cache`.

    Returns whether Inductor may assume support for the processor's vector instructions; False if
    `cache` is None, as for backends other than Inductor.
    """
    if cache is None:
        torch.compile(tiny, backend=backend)(torch.ones(1, device="cpu"))
        return False
    import torch._inductor.config as inductor
    from torch._inductor import cpp_builder  # noqa: F401  what it builds with

    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    before = inductor_cache_dir()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
    threads = torch.get_num_threads()
    try:
        with inductor.patch(compile_threads=1), reuse_kernel_builds(cache, before):
            torch.set_num_threads(1)  # or the children cannot start any
            if _runs_with_assumed_isa(tiny, backend):
                return True
            torch.compile(tiny, backend=backend)(torch.ones(8, device="cpu"))
            return False
    finally:
        torch.set_num_threads(threads)
        if folder is None:
            del os.environ["TORCHINDUCTOR_CACHE_DIR"]
        else:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder


def _runs_with_assumed_isa(tiny: Any, backend: str) -> bool:
    """Return whether `tiny` runs if Inductor assumes support for the processor's instructions.

    To test the support, Inductor would build a large file for each set of vector instructions.
    Running `tiny` tests the set that Inductor uses.
    """
    import torch._inductor.config as inductor

    if getattr(inductor.cpp, "vec_isa_ok", False) is not None:
        return False  # set by the user, or absent in this torch
    try:
        with inductor.patch({"cpp.vec_isa_ok": True}):
            with _probe_instruction_sets():
                from torch._inductor import compile_fx  # noqa: F401
            torch.compile(tiny, backend=backend)(torch.ones(8, device="cpu"))
    except Exception:
        _clear_instruction_sets()
        torch._dynamo.reset_code(tiny.__code__)
        return False
    return True


@contextlib.contextmanager
def _probe_instruction_sets() -> Iterator[None]:
    """Test, in threads while the block runs, which sets of vector instructions are supported."""
    from torch._inductor import codecache, cpp_builder, cpu_vec_isa  # noqa: F401  what it needs

    known = set(cpu_vec_isa.x86_isa_checker())
    sets = [one for one in cpu_vec_isa.supported_vec_isa_list if set(str(one).split()) <= known]
    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(copy_context().run, bool, one) for one in sets]  # results are cached
        yield
        for one in asked:
            one.exception()  # Inductor raises it again


def _clear_instruction_sets() -> None:
    """Make Inductor detect the CPU's instruction set again."""
    from torch._inductor import cpu_vec_isa

    for cached in (
        cpu_vec_isa.valid_vec_isa_list,
        *(type(one).__bool__ for one in cpu_vec_isa.supported_vec_isa_list),
    ):
        if hasattr(cached, "cache_clear"):
            cached.cache_clear()
