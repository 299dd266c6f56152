"""Accelerators that this process has initialised; nothing here initialises one."""

from __future__ import annotations

import os
import sys
from typing import Protocol, cast

import torch

_GPU_FILES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""Device files of the drivers of CUDA, of ROCm, and of both under WSL."""
RandomStates = tuple[torch.Tensor, ...]
"""States of the default generators: of the CPU, then of each initialised device."""


class _DeviceModule(Protocol):
    """The functions of `torch.cuda`, `torch.xpu` and other device modules that are used here."""

    def get_rng_state_all(self) -> list[torch.Tensor]: ...
    def set_rng_state_all(self, states: list[torch.Tensor]) -> None: ...
    def device_count(self) -> int: ...
    def memory_allocated(self, device: int) -> int: ...
    def synchronize(self, device: int) -> None: ...


def has_accelerator() -> bool:
    """Return whether this machine may have an accelerator; no driver is opened to find out.

    A CUDA build of torch names its accelerator on a machine without a GPU, too.
    """
    device = torch.accelerator.current_accelerator()
    if device is None or device.type != "cuda" or sys.platform != "linux":
        return device is not None
    return any(map(os.path.exists, _GPU_FILES))


def random_states() -> RandomStates:
    """Return the states of the CPU's default generator and those of the initialised devices."""
    module = _initialized_module()
    if module is None or not hasattr(module, "get_rng_state_all"):
        return (torch.get_rng_state(),)
    return torch.get_rng_state(), *module.get_rng_state_all()


def set_random_states(states: RandomStates) -> None:
    """Restore `states`, the random states that `random_states` returned."""
    torch.set_rng_state(states[0])
    module = _initialized_module()
    if len(states) > 1 and module is not None:
        module.set_rng_state_all(list(states[1:]))


def has_drawn_random_numbers(since: RandomStates) -> bool:
    """Return whether a default generator has advanced since `random_states` returned `since`."""
    return not all(map(torch.equal, random_states(), since))


def synchronize_devices() -> None:
    """Wait for all kernels launched so far. Raises the error of a kernel that failed."""
    module = _initialized_module()
    for index in range(module.device_count() if module is not None else 0):
        if module is not None and module.memory_allocated(index):
            module.synchronize(index)


def devices_are_usable() -> bool:
    """Return whether the devices still work; an illegal memory access makes them unusable."""
    try:
        synchronize_devices()
    except RuntimeError:
        return False
    return True


def _initialized_module() -> _DeviceModule | None:
    """Return the accelerator's module, such as `torch.cuda`; None if it is not initialised."""
    device = torch.accelerator.current_accelerator()
    module = torch.get_device_module(device) if device is not None else None
    initialized = getattr(module, "is_initialized", bool)()
    return cast(_DeviceModule, module) if initialized else None
