"""State of torch that has no public getter or setter."""

from __future__ import annotations

import contextlib
import copy
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch

_CONFIGS = (
    "torch._dynamo.config",
    "torch._functorch.config",
    "torch._inductor.config",
    "torch.compiler.config",
    "torch.fx.experimental._config",
)


def get_configs() -> dict[str, dict[str, Any]]:
    """Every setting of the compiler's configuration modules that are loaded."""
    return {name: sys.modules[name].get_config_copy() for name in _CONFIGS if name in sys.modules}


def set_configs(saved: dict[str, dict[str, Any]]) -> None:
    now = get_configs()
    for name, settings in saved.items():
        for key, value in settings.items():
            if now[name].get(key) != value:
                setattr(sys.modules[name], key, value)


def non_default_config() -> dict[str, Any]:
    """The settings of Dynamo, AOTAutograd and Inductor that are not as torch has them, by full
    name: {"torch._inductor.config.cpp.simdlen": 8}. Those that change no result are left out."""
    found = {}
    for module in _CONFIGS:
        config: Any = sys.modules.get(module)
        others = {
            name: entry.default
            for name, entry in getattr(config, "_config", {}).items()
            if name.rpartition(".")[2] not in _HARMLESS and entry.alias is None
            if not config._is_default(name)
        }
        values = config.get_config_copy() if others else {}
        for name, default in others.items():
            if values.get(name) != default:
                found[f"{module}.{name}"] = values.get(name)
    return found


_HARMLESS = {"compile_threads", "verbose", "fx_graph_cache", "enable_autograd_cache"}


def reset_config(name: str) -> None:
    """Set one of `changed` as torch has it."""
    module, short = _split(name)
    config: Any = sys.modules[module]
    setattr(config, short, config._config[short].default)


def set_config(settings: Mapping[str, object]) -> None:
    """Make settings, named as in `changed`, those of this process."""
    for name, value in settings.items():
        module, short = _split(name)
        setattr(importlib.import_module(module), short, value)


def _split(name: str) -> tuple[str, str]:
    """A setting's module, and its name there."""
    module = next(m for m in _CONFIGS if name.startswith(m + "."))
    return module, name.removeprefix(module + ".")


@contextlib.contextmanager
def patch_config(settings: Mapping[str, object]) -> Iterator[None]:
    """Run with settings, "torch._dynamo.config.allow_rnn" for example; put all back on exit.

    Raises AttributeError for a setting that this torch does not have.
    """
    named = {tuple(name.rpartition(".")[::2]): value for name, value in settings.items()}
    for module, _ in named:
        importlib.import_module(module)
    before = get_configs()
    try:
        for (module, key), value in named.items():
            getattr(sys.modules[module], key)
            setattr(sys.modules[module], key, value)
        yield
    finally:
        set_configs(before)


def mode_options(mode: str) -> dict[str, Any]:
    """The settings of Inductor that a mode of torch.compile stands for."""
    import torch._inductor

    return dict(torch._inductor.list_mode_options(mode))


def compile_in_process() -> None:
    """Let Inductor compile here, not in a pool of processes."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    config = sys.modules.get("torch._inductor.config")
    if config is not None:
        config.compile_threads = 1  # type: ignore[attr-defined]


def skip_guard_profiling() -> None:
    """Let Dynamo not measure, for a log, how long each new set of guards takes: it empties the
    processor's caches for it, which is a fifth of what a small frame's compilation costs."""
    guards: Any = sys.modules.get("torch._dynamo.guards")
    if hasattr(guards, "profile_guard_manager"):
        guards.profile_guard_manager = lambda root, scope, times: 0.0


@contextlib.contextmanager
def use_compile_threads(number: int) -> Iterator[None]:
    """Let Inductor build so many C++ kernels at a time, in a forked child: the threads that its
    parent had for that are not there."""
    import torch._inductor.config as inductor
    from torch._inductor.async_compile import AsyncCompile

    forget = getattr(getattr(AsyncCompile, "pool", None), "cache_clear", None)
    if forget is None:
        number = 1
    else:
        forget()
    with inductor.patch(compile_threads=number):
        yield


@contextlib.contextmanager
def compile_uncached(random: bool) -> Iterator[None]:
    """Compile everything anew; and with `random` draw the numbers that eager draws."""
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor

    patch: dict[str, Any] = {"fx_graph_cache": False}
    if random:
        patch["fallback_random"] = True
    with inductor.patch(patch), functorch.patch(enable_autograd_cache=False):
        yield


@contextlib.contextmanager
def forbid_recompiles(wanted: bool) -> Iterator[None]:
    """With `wanted`, raise where a function would be compiled a second time."""
    import torch._dynamo.config as dynamo

    with dynamo.patch(error_on_recompile=True) if wanted else contextlib.nullcontext():
        yield


def get_default_device() -> torch.device | None:
    """What `torch.set_default_device` was given; None if it was not called."""
    context = getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None)
    mode = getattr(context, "device_context", None)
    return getattr(mode, "device", None)


def get_log_state() -> dict[str, Any]:
    """Which of torch's loggers and artifacts `torch._logging.set_logs` has switched on."""
    state = getattr(getattr(torch._logging, "_internal", None), "log_state", None)
    return {name: copy.copy(value) for name, value in vars(state).items()} if state else {}


def set_log_state(saved: dict[str, Any]) -> None:
    if saved != get_log_state():
        vars(torch._logging._internal.log_state).update(saved)


def disable_torch_function() -> contextlib.AbstractContextManager[None]:
    """Look at tensors past the `__torch_function__` of their classes."""
    return torch._C.DisableTorchFunctionSubclass()


def set_tensor_version(tensor: torch.Tensor, version: int) -> None:
    """Set the counter with which autograd notices that a saved tensor was changed in place."""
    torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


def inner_tensors(tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """The tensors that `tensor` is made of, when it has no memory of its own."""
    if tensor.layout is torch.sparse_coo:
        return [("indices", tensor._indices()), ("values", tensor._values())]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [
            ("crow_indices", tensor.crow_indices()),
            ("col_indices", tensor.col_indices()),
            ("values", tensor.values()),
        ]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [
            ("ccol_indices", tensor.ccol_indices()),
            ("row_indices", tensor.row_indices()),
            ("values", tensor.values()),
        ]
    if hasattr(type(tensor), "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
        return [(name, getattr(tensor, name)) for name in names]
    return []


def collective_counts() -> dict[str, int]:
    """How many collectives each process group has begun."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return {}
    from torch.distributed import distributed_c10d

    numbers: dict[str, int] = {}
    for group in list(distributed_c10d._world.pg_map):
        counted: Any = group
        try:
            numbers[str(group.group_name)] = counted._get_sequence_number_for_group()
        except RuntimeError:  # a backend that does not count
            continue
    return numbers


def inductor_cache_dir(*, load: bool = False) -> str | None:
    """Return the folder of Inductor's cache; None while Inductor is not loaded, unless `load`."""
    name = "torch._inductor.runtime.cache_dir_utils"
    module: Any = importlib.import_module(name) if load else sys.modules.get(name)
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return folder or (module.default_cache_dir() if module is not None else None)
