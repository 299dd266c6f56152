"""Memory and waiting time of processes, as the kernel reports them. Linux only."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path


def process_memory(pid: int) -> int:
    """Return the anonymous memory of a process and its descendants in bytes; 0 if it is gone.

    Mapped files do not count.
    """
    total = 0
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
        total += int(found[1]) * 1024 if found else 0
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                total += process_memory(int(child))
    return total


def share_of_waiting(pid: int) -> float:
    """Return the share of the time in which a process could run that it waited for a processor.

    All threads of the process and of its descendants count; one that sleeps can not run. 0 if the
    kernel does not tell.
    """
    ran, waited = _scheduled(pid)
    return waited / (ran + waited) if waited else 0.0


def _scheduled(pid: int) -> tuple[int, int]:
    """Return the nanoseconds that the threads of a process ran, and that they waited to."""
    ran = waited = 0
    with contextlib.suppress(OSError, ValueError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            times = [tuple(map(int, (thread / "schedstat").read_text().split()[:2]))]
            times += [_scheduled(int(one)) for one in (thread / "children").read_text().split()]
            ran += sum(one for one, _ in times)
            waited += sum(one for _, one in times)
    return ran, waited


def available_memory() -> int:
    """Return the memory of the machine that is available to programs, in bytes."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    assert found is not None, "Linux reports it since 3.14"
    return int(found[1]) * 1024
