"""The device beside the CPU that this process has in use, if it has one. Nothing here opens one."""

from __future__ import annotations

from typing import Any

import torch


def generators() -> tuple[torch.Tensor, ...]:
    """The states of the default generators: of the CPU, and of the devices in use."""
    module = _module()
    states = module.get_rng_state_all() if hasattr(module, "get_rng_state_all") else ()
    return torch.get_rng_state(), *states


def set_generators(states: tuple[torch.Tensor, ...]) -> None:
    """Put back what `generators` gave."""
    torch.set_rng_state(states[0])
    if len(states) > 1:
        _module().set_rng_state_all(list(states[1:]))


def drawn(before: tuple[torch.Tensor, ...]) -> bool:
    """Whether random numbers were drawn since `generators` gave `before`."""
    now = generators()
    return len(now) != len(before) or not all(map(torch.equal, now, before))


def finish() -> None:
    """Wait until all is done that the device was asked for. Raises what was wrong with that."""
    module = _module()
    if module is not None:
        module.synchronize()


def usable() -> bool:
    """Whether the device does what it is asked: after an illegal access it does nothing more for
    this process."""
    try:
        finish()
    except RuntimeError:
        return False
    return True


def _module() -> Any:
    device = torch.accelerator.current_accelerator()
    module = torch.get_device_module(device) if device is not None else None
    return module if getattr(module, "is_initialized", bool)() else None
