"""Decides whether a job can run in a forked child of this process."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from fullgraph.compiler.isolation.job_outcome import JobProcess
from fullgraph.compiler.isolation.snapshots import devices_of


def choose_process(objects: Sequence[object]) -> tuple[JobProcess, str]:
    """Return ("fork" or "process", reason): where to run a job that uses `objects`.

    "fork" is a forked child, "process" is this process; the reason is a clause: "everything is on
    CPU". A fork is safe with a process group: a forked child computes its collectives without the
    other ranks.
    """
    if sys.platform != "linux":
        return "process", f"a fork is not safe on {sys.platform}"
    for accelerator in (torch.cuda, torch.xpu):
        if accelerator.is_initialized():
            return "process", f"{accelerator.__name__} is initialised and does not survive a fork"
    if _has_open_gpu_driver():
        return "process", "a GPU driver is open in this process and does not survive a fork"
    if _has_autograd_threads():
        return "process", "autograd's device threads run here, and a fork has no backward then"
    if _has_other_accelerator():
        found = sorted(devices_of(objects) - {"cpu", "meta"})
        if found:
            return "process", f"there are tensors on {', '.join(found)}"
    return "fork", "everything is on CPU"


def _has_other_accelerator() -> bool:
    """Return whether tensors may be on a device other than CPU, CUDA and XPU."""
    known = torch.accelerator.current_accelerator()
    return "torch_xla" in sys.modules or not (known is None or known.type in ("cuda", "xpu"))


def _has_open_gpu_driver() -> bool:
    """Return whether this process has a GPU driver open.

    `torch.cuda.is_available()` opens one without initialising CUDA.
    """
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # closed since it was listed
                if os.readlink(f"/proc/self/fd/{name}").startswith(("/dev/nvidia", "/dev/kfd")):
                    return True
    return False


def _has_autograd_threads() -> bool:
    """Return whether autograd has started its device threads.

    The first backward starts them if there are devices. On a CUDA build without a GPU, a first
    backward inside AOTAutograd starts them, too.
    """
    with contextlib.suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError):  # ended since it was listed
                if Path(f"/proc/self/task/{thread}/comm").read_text().startswith("pt_autograd_"):
                    return True
    return False
