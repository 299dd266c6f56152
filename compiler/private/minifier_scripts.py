"""Repro scripts of PyTorch's own minifier, read without running that minifier."""

from __future__ import annotations

import contextlib
import copy
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, cast

import torch

from fullgraph.compiler.private.compile_config import silence_torch_logs
from fullgraph.compiler.private.torch_state import get_configs

REPRO_PACKAGE = "torch._dynamo.repro"
"""Package from which a minifier script imports `run_repro`."""
_LEVELS: tuple[Literal["dynamo", "aot"], ...] = ("dynamo", "aot")
_CONFIGS = (
    "torch._dynamo.config",
    "torch._functorch.config",
    "torch._inductor.config",
    "torch.fx.experimental._config",
)


@dataclass(frozen=True, eq=False)
class ReproCall:
    """Arguments of a call of `run_repro`, with the grad mode and process groups at that time.

    `level` says which of torch's minifiers wrote the script: "dynamo" or "aot".
    """

    level: Literal["dynamo", "aot"]
    module: torch.nn.Module
    load_args: Callable[[object], object]
    options: Mapping[str, Any]
    grad: bool
    groups: Mapping[str, Mapping[str, int]]
    """Size and rank of each process group of the script, by name."""


class ReproReached(BaseException):
    """Raised in place of `run_repro`, to stop the script there."""

    def __init__(self, call: ReproCall) -> None:
        super().__init__()
        self.call = call


@contextlib.contextmanager
def intercept_run_repro() -> Iterator[None]:
    """Inside the block, make `run_repro` raise `ReproReached` instead of running the repro.

    The exception holds the arguments, and the process groups that the script has set up.
    """
    groups: dict[str, Mapping[str, int]] = {}

    def replacement_for(level: Literal["dynamo", "aot"]) -> Callable[..., NoReturn]:
        """Return a `run_repro` that raises `ReproReached` with its arguments."""

        def run_repro(mod: torch.nn.Module, load_args: Any, **options: Any) -> NoReturn:
            grad = torch.is_grad_enabled()
            raise ReproReached(ReproCall(level, mod, load_args, options, grad, dict(groups)))

        return run_repro

    with contextlib.ExitStack() as stack:
        for level in _LEVELS:
            module = importlib.import_module(f"{REPRO_PACKAGE}.after_{level}")
            _replace_attribute(stack, module, "run_repro", replacement_for(level))
            _replace_attribute(stack, module, "setup_fake_process_groups", groups.update)
        yield


def _replace_attribute(
    stack: contextlib.ExitStack, module: object, name: str, value: object
) -> None:
    """Set an attribute until `stack` closes."""
    if hasattr(module, name):
        stack.callback(setattr, module, name, getattr(module, name))
        setattr(module, name, value)


@contextlib.contextmanager
def start_fake_process_groups(groups: Mapping[str, Mapping[str, int]]) -> Iterator[None]:
    """Inside the block, run with the fake process groups `groups` of a script, by name.

    Does nothing if there are none, or if process groups are already initialised.
    """
    if not groups or torch.distributed.is_initialized():
        yield
        return
    start = importlib.import_module(f"{REPRO_PACKAGE}.after_aot").setup_fake_process_groups
    start(groups)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


@dataclass(frozen=True)
class ReproInputs:
    """Inputs of a minifier script, and how many of them could not be loaded."""

    args: tuple[object, ...]
    symbolic: bool
    """Whether any input is a symbolic size."""
    lost: int
    """Number of storages that the script saved, but whose files are not in the folder."""
    unsaved: int
    """Number of storages that the script did not save."""
    nothing: tuple[str, ...]
    """Names of inputs that PyTorch cannot save; their values are None."""


def read_repro_inputs(load_args: Callable[[object], object], folder: str | None) -> ReproInputs:
    """Return the inputs that `load_args` reads from `folder`, or without a folder if that is None.

    For storages that are not in the folder, torch generates data.
    """
    from torch._dynamo.debug_utils import InputReader

    found_out: dict[str, Any] = {"lost": 0, "unsaved": 0, "symbolic": False, "nothing": []}

    class Reader(InputReader):
        """PyTorch's reader of inputs, extended to count the inputs that it generates."""

        def storage(self, storage_hash: str | None, nbytes: int, **rest: Any) -> Any:
            """Return a storage; count those that were not saved or whose file is missing."""
            if storage_hash is None:
                found_out["unsaved"] += 1
            elif folder is None or not (Path(folder) / "storages" / storage_hash).is_file():
                found_out["lost"] += 1
            found = super().storage(storage_hash, nbytes, **rest)
            return found.clone()  # equal storages share a file but were not aliases

        def symint(self, *args: Any, **rest: Any) -> Any:
            """Return a size; record that the inputs have symbolic sizes."""
            found_out["symbolic"] = True
            return super().symint(*args, **rest)

        def unsupported(self, name: str) -> None:
            """Record an input of a type that cannot be read."""
            found_out["nothing"].append(name)
            super().unsupported(name)

        def opaque(self, script_class_name: str) -> None:
            """Record an opaque object that cannot be read."""
            found_out["nothing"].append(script_class_name)
            super().opaque(script_class_name)

    with silence_torch_logs():
        reader = Reader(save_dir=folder)
        load_args(reader)
    found_out["nothing"] = tuple(found_out["nothing"])
    return ReproInputs(tuple(reader.args), **found_out)


Configs = dict[str, dict[str, object]]
KernelTable = tuple[object, ...]


def load_configs() -> Configs:
    """Import the config modules and return every setting, by module and name."""
    for name in _CONFIGS:
        importlib.import_module(name)
    return get_configs()


def changed_configs(before: Configs, after: Configs) -> Configs:
    """Return the settings of `after` that differ from `before`, by module and name."""
    return {
        module: {name: value for name, value in named.items() if before[module].get(name) != value}
        for module, named in after.items()
    }


def configs_in_environment(environment: Mapping[str, str]) -> Configs:
    """Return the settings that would be different if torch were imported in `environment`.

    They are compared with those of an import in this process's own environment; both imports leave
    the loaded settings unchanged.
    """
    here = {name: _import_afresh(name) for name in _CONFIGS}
    kept = dict(os.environ)
    os.environ.update(environment)
    try:
        there = {name: _import_afresh(name) for name in _CONFIGS}
    finally:
        os.environ.clear()
        os.environ.update(kept)
    return changed_configs(here, there)


def _import_afresh(name: str) -> dict[str, object]:
    """Return the settings of a config module imported anew; leave the loaded one unchanged."""
    origin = importlib.util.find_spec(name)
    assert origin is not None and origin.origin is not None
    spec = importlib.util.spec_from_file_location(f"{name}_again", origin.origin)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        values = cast(Any, module).get_config_copy()
    finally:
        del sys.modules[spec.name]
    plain = (bool, int, float, str, list, dict, set, tuple, type(None))
    return {key: value for key, value in values.items() if isinstance(value, plain)}


def get_kernel_table() -> KernelTable:
    """Return a copy of the table of Triton kernels that graphs refer to by index."""
    table = _kernel_table()
    return (
        tuple(copy.copy(getattr(table, name)) for name in _TABLE_FIELDS)
        if table is not None
        else ()
    )


def set_kernel_table(saved: KernelTable) -> None:
    """Restore the table of Triton kernels that `get_kernel_table` returned."""
    table = _kernel_table()
    for name, value in zip(_TABLE_FIELDS, saved, strict=False):
        setattr(table, name, copy.copy(value))


_TABLE_FIELDS: Sequence[str] = ("id_to_kernel", "kernel_to_id", "constant_args")


def _kernel_table() -> Any:
    """Return torch's table of Triton kernels; None if this torch has none."""
    module = importlib.import_module("torch._higher_order_ops.triton_kernel_wrap")
    return getattr(module, "kernel_side_table", None)
