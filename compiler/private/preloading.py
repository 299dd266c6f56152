"""A compilation that leaves nothing behind but loaded modules."""

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
    """Compile and call a function of one op, and take back what Dynamo counted. The modes and the
    default device of the caller are not in force meanwhile.

    With `symbols` its shapes and numbers depend on data. What Inductor builds goes to the folder
    `cache`. Returns whether Inductor may take for granted that the C++ compiler knows the
    processor's vector instructions.
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
        trusted = _compile(tiny, backend, cache)
    dynamo.reset_code(tiny.__code__)
    utils.counters.clear()
    utils.counters.update(counters)
    if kept is not None:
        metrics.clear()
        metrics.extend(kept)
    if number is not None:
        convert_frame.FRAME_COUNTER = number
    return trusted


def _compile(tiny: Any, backend: str, cache: str | None) -> bool:
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
            if _trusting(tiny, backend):
                return True
            torch.compile(tiny, backend=backend)(torch.ones(8, device="cpu"))
            return False
    finally:
        torch.set_num_threads(threads)
        if folder is None:
            del os.environ["TORCHINDUCTOR_CACHE_DIR"]
        else:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder


def _trusting(tiny: Any, backend: str) -> bool:
    """Whether `tiny` runs if Inductor takes for granted that the C++ compiler knows the vector
    instructions which the processor has. Else it builds a large file for each set of them to see;
    that `tiny` runs tells as much of the one it uses."""
    import torch._inductor.config as inductor

    if getattr(inductor.cpp, "vec_isa_ok", False) is not None:
        return False  # the user says, or this torch has no such setting
    try:
        with inductor.patch({"cpp.vec_isa_ok": True}):
            with _instruction_sets():
                from torch._inductor import compile_fx  # noqa: F401
            torch.compile(tiny, backend=backend)(torch.ones(8, device="cpu"))
    except Exception:
        _forget_instruction_sets()
        torch._dynamo.reset_code(tiny.__code__)
        return False
    return True


@contextlib.contextmanager
def _instruction_sets() -> Iterator[None]:
    """Meanwhile let Inductor find out which instructions are there: what else it asks of each set
    depends on no other."""
    from torch._inductor import codecache, cpp_builder, cpu_vec_isa  # noqa: F401  what it needs

    known = set(cpu_vec_isa.x86_isa_checker())
    sets = [one for one in cpu_vec_isa.supported_vec_isa_list if set(str(one).split()) <= known]
    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(copy_context().run, bool, one) for one in sets]  # they remember it
        yield
        for one in asked:
            one.exception()  # Inductor meets it again


def _forget_instruction_sets() -> None:
    from torch._inductor import cpu_vec_isa

    for remembers in (
        cpu_vec_isa.valid_vec_isa_list,
        *(type(one).__bool__ for one in cpu_vec_isa.supported_vec_isa_list),
    ):
        if hasattr(remembers, "cache_clear"):
            remembers.cache_clear()
