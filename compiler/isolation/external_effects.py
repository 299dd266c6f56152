"""Effects of a job on the process that can be detected but not undone."""

from __future__ import annotations

import os
import threading
import time

import torch

from fullgraph.compiler.private import collective_counts, inductor_cache_dir


class ExternalEffects:
    """Record of this process's threads, process groups, GPU memory and Inductor cache.

    It is made before a job, and `changes` tells what the job changed. Files written,
    servers called and objects that only C code holds are not detected.
    """

    def __init__(self) -> None:
        self._threads = set(threading.enumerate())
        self._groups = collective_counts()
        self._cuda = torch.cuda.is_initialized()
        self._memory = _gpu_memory()
        self._start = time.time_ns()

    def changes(self) -> tuple[str, ...]:
        """Return a sentence for each of these that has changed since construction."""
        sentences = []
        names = sorted(t.name for t in set(threading.enumerate()) - self._threads)
        if names:
            sentences.append(f"Threads that were started still run: {', '.join(names)}.")
        for group, number in collective_counts().items():
            ran = number - self._groups.get(group, 0)
            if ran:
                sentences.append(
                    f"{ran} collectives ran in the process group {group!r} on this rank."
                )
        if torch.cuda.is_initialized() and not self._cuda:
            sentences.append("CUDA was initialised, and stays so until the process ends.")
        elif _gpu_memory() != self._memory:
            sentences.append(
                "CUDA's allocator keeps memory it reserved; its peaks include this run."
            )
        folder = inductor_cache_dir()
        if _last_write(folder) > self._start:
            sentences.append(f"TorchInductor's cache in {folder} was written to.")
        return tuple(sentences)


def _gpu_memory() -> list[tuple[int, int]]:
    """Return (bytes reserved, peak bytes allocated) for each GPU; [] before CUDA is initialised."""
    if not torch.cuda.is_initialized():
        return []
    gpus = range(torch.cuda.device_count())
    return [(torch.cuda.memory_reserved(g), torch.cuda.max_memory_allocated(g)) for g in gpus]


def _last_write(folder: str | None) -> int:
    """Return when `folder` or a direct entry of it last changed, in ns; 0 if it is missing."""
    if folder is None or not os.path.isdir(folder):
        return 0
    with os.scandir(folder) as entries:
        times = [entry.stat().st_mtime_ns for entry in entries]
    return max([os.stat(folder).st_mtime_ns, *times])
