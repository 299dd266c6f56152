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


def scheduled_seconds(pid: int) -> tuple[float, float]:
    """Return the seconds that the threads of a process ran, and that they waited for a processor.

    Those of its descendants count. (0, 0) if the kernel does not tell.
    """
    ran = waited = 0.0
    with contextlib.suppress(OSError, ValueError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            own, other = (thread / "schedstat").read_text().split()[:2]
            times = [(int(own) / 1e9, int(other) / 1e9)]
            children = (thread / "children").read_text().split()
            times += [scheduled_seconds(int(child)) for child in children]
            ran += sum(one for one, _ in times)
            waited += sum(one for _, one in times)
    return ran, waited


def available_memory() -> int:
    """Return the memory of the machine that is available to programs, in bytes."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    assert found is not None, "Linux reports it since 3.14"
    return int(found[1]) * 1024
