"""The devices beside the CPU that this process has in use. Nothing here opens one."""

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
    return not all(map(torch.equal, generators(), before))


def finish() -> None:
    """Wait until all is done that the devices were asked for. Raises what was wrong with that."""
    module = _module()
    for index in range(module.device_count() if module is not None else 0):
        if module.memory_allocated(index):
            module.synchronize(index)


def usable() -> bool:
    """Whether the devices do what they are asked: after an illegal access one does nothing more for
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
