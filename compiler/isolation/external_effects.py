"""What can be seen to have changed and cannot be put back."""

from __future__ import annotations

import os
import threading
import time

import torch

from fullgraph.compiler.private import torch_state as settings


class Outside:
    """The threads, process groups, GPU memory and compile cache as they were when this was made.

    Files written, servers called and objects that only C code holds are not seen.
    """

    def __init__(self) -> None:
        self._threads = set(threading.enumerate())
        self._groups = settings.sequence_numbers()
        self._cuda = torch.cuda.is_initialized()
        self._memory = _gpu_memory()
        self._start = time.time_ns()

    def changes(self) -> tuple[str, ...]:
        """A sentence for each."""
        told = []
        names = sorted(t.name for t in set(threading.enumerate()) - self._threads)
        if names:
            told.append(f"Threads that were started still run: {', '.join(names)}.")
        for group, number in settings.sequence_numbers().items():
            ran = number - self._groups.get(group, 0)
            if ran:
                told.append(f"{ran} collectives ran in the process group {group!r} on this rank.")
        if torch.cuda.is_initialized() and not self._cuda:
            told.append("CUDA was initialised, and stays so until the process ends.")
        elif _gpu_memory() != self._memory:
            told.append("CUDA's allocator keeps memory it reserved; its peaks include this run.")
        folder = settings.inductor_folder()
        if _last_written(folder) > self._start:
            told.append(f"TorchInductor's cache in {folder} was written to.")
        return tuple(told)


def _gpu_memory() -> list[tuple[int, int]]:
    """Reserved and peak bytes of each GPU."""
    if not torch.cuda.is_initialized():
        return []
    gpus = range(torch.cuda.device_count())
    return [(torch.cuda.memory_reserved(g), torch.cuda.max_memory_allocated(g)) for g in gpus]


def _last_written(folder: str | None) -> int:
    """When something was last added to `folder` or one of its folders; 0 if there is none."""
    if folder is None or not os.path.isdir(folder):
        return 0
    with os.scandir(folder) as entries:
        times = [entry.stat().st_mtime_ns for entry in entries]
    return max([os.stat(folder).st_mtime_ns, *times])
