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
from torch.utils._config_module import ConfigModule

_CONFIGS = (
    "torch._dynamo.config",
    "torch._functorch.config",
    "torch._inductor.config",
    "torch.compiler.config",
    "torch.fx.experimental._config",
)


Settings = dict[str, object]
"""Values of compiler settings by name."""


def get_configs() -> dict[str, Settings]:
    """Return every setting of the compiler's loaded config modules, by module and name."""
    return {
        name: config.get_config_copy()
        for name in _CONFIGS
        if (config := _loaded_config(name)) is not None
    }


def _loaded_config(name: str) -> ConfigModule | None:
    """Return the config module `name`; None if it is not loaded."""
    config = sys.modules.get(name)
    return config if isinstance(config, ConfigModule) else None


def set_configs(saved: dict[str, Settings]) -> None:
    """Restore the settings that `get_configs` returned."""
    now = get_configs()
    for name, settings in saved.items():
        for key, value in settings.items():
            if now[name].get(key) != value:
                setattr(sys.modules[name], key, value)


def non_default_config() -> Settings:
    """Return the compiler settings that differ from torch's defaults, by full name.

    For example {"torch._inductor.config.cpp.simdlen": 8}. Settings that cannot change a result are
    left out.
    """
    found = {}
    for module in _CONFIGS:
        config = _loaded_config(module)
        if config is None:
            continue
        others = {
            name: entry.default
            for name, entry in config._config.items()
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
    """Reset a setting, named as in `non_default_config`, to torch's default."""
    module, short = _split_setting(name)
    config = _loaded_config(module)
    assert config is not None
    setattr(config, short, config._config[short].default)


def set_config(settings: Mapping[str, object]) -> None:
    """Set compiler settings, named as in `non_default_config`, for this process."""
    for name, value in settings.items():
        module, short = _split_setting(name)
        setattr(importlib.import_module(module), short, value)


def _split_setting(name: str) -> tuple[str, str]:
    """Return the config module of a setting, and the setting's name there.

    "torch._inductor.config.cpp.simdlen" → ("torch._inductor.config", "cpp.simdlen")
    """
    module = next(m for m in _CONFIGS if name.startswith(m + "."))
    return module, name.removeprefix(module + ".")


@contextlib.contextmanager
def patch_config(settings: Mapping[str, object]) -> Iterator[None]:
    """Set settings such as "torch._dynamo.config.allow_rnn"; restore all settings on exit.

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


def mode_options(mode: str) -> Settings:
    """Return the Inductor settings that a mode of torch.compile, such as "max-autotune", sets."""
    import torch._inductor

    return dict(torch._inductor.list_mode_options(mode))


def compile_in_process() -> None:
    """Make Inductor compile in this process, without a pool of processes or a parent's threads."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    config = _loaded_config("torch._inductor.config")
    if config is not None:
        config.compile_threads = 1  # of this thread: another one may still use the pool
    _forget_compile_threads()


def _forget_compile_threads() -> bool:
    """Make Inductor start new threads to build kernels; return whether this torch can.

    A forked child does not have the threads of its parent, and what it hands to them never ends.
    """
    compiling = sys.modules.get("torch._inductor.async_compile")
    pool = getattr(getattr(compiling, "AsyncCompile", None), "pool", None)
    forget = getattr(pool, "cache_clear", None)
    if forget is not None:
        forget()
    return forget is not None


def skip_guard_profiling() -> None:
    """Stop Dynamo from timing new guards for a log.

    The timing takes a fifth of the compile time of a small frame.
    """
    guards: Any = sys.modules.get("torch._dynamo.guards")
    if hasattr(guards, "profile_guard_manager"):
        guards.profile_guard_manager = lambda root, scope, times: 0.0


@contextlib.contextmanager
def use_compile_threads(number: int) -> Iterator[None]:
    """Inside the block, Inductor builds `number` C++ kernels at a time, in new threads."""
    import torch._inductor.config as inductor

    importlib.import_module("torch._inductor.async_compile")
    with inductor.patch(compile_threads=number if _forget_compile_threads() else 1):
        yield


@contextlib.contextmanager
def compile_uncached(random: bool) -> Iterator[None]:
    """Inside the block, compile without caches; if `random`, also draw eager's random numbers."""
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor

    patch: dict[str, bool] = {"fx_graph_cache": False}
    if random:
        patch["fallback_random"] = True
    with inductor.patch(patch), functorch.patch(enable_autograd_cache=False):
        yield


@contextlib.contextmanager
def forbid_recompiles(wanted: bool) -> Iterator[None]:
    """If `wanted`, make a recompile inside the block an error; otherwise do nothing."""
    import torch._dynamo.config as dynamo

    with dynamo.patch(error_on_recompile=True) if wanted else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def unlimited_recompiles() -> Iterator[None]:
    """Compile a frame in the block however often it was compiled before."""
    import torch._dynamo.config as dynamo

    names = ("recompile_limit", "accumulated_recompile_limit")
    with dynamo.patch({name: 1 << 20 for name in names if hasattr(dynamo, name)}):
        yield


def compiled_graphs() -> int:
    """Return how many graphs torch has compiled in this process since Dynamo was reset."""
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def get_default_device() -> torch.device | None:
    """Return the device set by `torch.set_default_device`; None if none was set."""
    context = getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None)
    mode = getattr(context, "device_context", None)
    return getattr(mode, "device", None)


def get_log_state() -> dict[str, object]:
    """Return the state of `torch._logging`: the loggers and artifacts that are switched on."""
    state = getattr(getattr(torch._logging, "_internal", None), "log_state", None)
    return {name: copy.copy(value) for name, value in vars(state).items()} if state else {}


def set_log_state(saved: dict[str, object]) -> None:
    """Restore the logging switches that `get_log_state` returned."""
    if saved != get_log_state():
        vars(torch._logging._internal.log_state).update(saved)


def disable_torch_function() -> contextlib.AbstractContextManager[None]:
    """Disable the `__torch_function__` of tensor subclasses."""
    return torch._C.DisableTorchFunctionSubclass()


def set_tensor_version(tensor: torch.Tensor, version: int) -> None:
    """Set the version counter by which autograd detects in-place updates of saved tensors."""
    torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


def inner_tensors(tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """Return the component tensors of a sparse tensor or wrapper subclass: [("indices", …), …].

    [] for any other tensor.
    """
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
    """Return the number of collectives that each process group has started, by group name.

    {} if no process group is initialised. Groups that do not count are left out.
    """
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
    """Return the folder of Inductor's cache.

    If Inductor is not loaded and no environment variable names the folder, return None; with
    `load`, import the module that knows the default folder instead.
    """
    name = "torch._inductor.runtime.cache_dir_utils"
    module: Any = importlib.import_module(name) if load else sys.modules.get(name)
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return folder or (module.default_cache_dir() if module is not None else None)
