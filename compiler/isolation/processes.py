"""What the kernel tells about other processes. Linux only."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path


def memory(pid: int) -> int:
    """Bytes of memory that a process and those it started have of their own; 0 for one that is
    gone. Files that are mapped do not count."""
    total = 0
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
        total += int(found[1]) * 1024 if found else 0
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                total += memory(int(child))
    return total


def free_memory() -> int:
    """Bytes that this machine could still give to programs."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    assert found is not None, "every Linux since 3.14 tells"
    return int(found[1]) * 1024
