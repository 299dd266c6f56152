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


def seconds_waited(pid: int) -> float:
    """Return the seconds that a process and its descendants waited for a processor.

    Each thread counts, and a process that has ended does not. 0 if the kernel does not tell.
    """
    total = 0.0
    with contextlib.suppress(OSError, ValueError, IndexError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            total += int((thread / "schedstat").read_text().split()[1]) / 1e9
            for child in (thread / "children").read_text().split():
                total += seconds_waited(int(child))
    return total


def available_memory() -> int:
    """Return the memory of the machine that is available to programs, in bytes."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    assert found is not None, "Linux reports it since 3.14"
    return int(found[1]) * 1024
