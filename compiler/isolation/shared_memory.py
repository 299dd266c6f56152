"""Gives a forked child a private copy of the memory that it shares with its parent.

A fork copies ordinary memory on write, but not shared mappings: tensors after `share_memory_()`,
tensors from a DataLoader's worker, `torch.from_file(shared=True)`, numpy.memmap,
multiprocessing.shared_memory. The kernel lists all such mappings. Linux only.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

_READ_WRITE = 0x1 | 0x2  # PROT_READ | PROT_WRITE
_PRIVATE, _FIXED, _ANONYMOUS = 0x02, 0x10, 0x20
_MAY_MOVE, _MOVE_FIXED = 1, 2
_FAILED = ctypes.c_void_p(-1).value


@dataclass(frozen=True)
class SharedMapping:
    """A writable shared mapping, from a line of /proc/self/maps."""

    start: int
    size: int
    offset: int
    inode: int
    path: str


def shared_mappings() -> list[SharedMapping]:
    """Return this process's writable shared mappings, except those of devices."""
    found = []
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            span, access, offset, _device, inode, *path = line.rstrip("\n").split(maxsplit=5)
            if access[1] != "w" or access[3] != "s":
                continue
            mapping = _parse_mapping(span, offset, inode, path[0] if path else "")
            if not _is_device(mapping.path):
                found.append(mapping)
    return found


def _parse_mapping(span: str, offset: str, inode: str, path: str) -> SharedMapping:
    """Build a mapping from hexadecimal fields of `/proc/self/maps`."""
    start, end = (int(part, 16) for part in span.split("-"))
    return SharedMapping(start, end - start, int(offset, 16), int(inode), path)


def _is_device(path: str) -> bool:
    """Return whether a mapping's path is a device file."""
    if path.startswith(("/dev/shm/", "/dev/zero")):
        return False
    return path.startswith(("/dev/", "anon_inode:", "/dmabuf:"))


def make_shared_memory_private() -> None:
    """Replace every shared mapping by a private copy at the same address.

    A file that still exists is mapped again, privately, so only the pages written are copied. Any
    other mapping is copied at once. Raises OSError if the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    size, flags, address = ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p
    libc.mmap.restype = libc.mremap.restype = address
    libc.mmap.argtypes = [address, size, flags, flags, flags, ctypes.c_long]
    libc.mremap.argtypes = [address, size, size, flags, address]
    for mapping in shared_mappings():
        descriptor = _open(mapping)
        if descriptor is not None:
            how = _PRIVATE | _FIXED
            got = libc.mmap(
                mapping.start, mapping.size, _READ_WRITE, how, descriptor, mapping.offset
            )
            os.close(descriptor)
        else:
            got = libc.mmap(None, mapping.size, _READ_WRITE, _PRIVATE | _ANONYMOUS, -1, 0)
            if got != _FAILED:
                ctypes.memmove(got, mapping.start, mapping.size)
                how = _MAY_MOVE | _MOVE_FIXED
                got = libc.mremap(got, mapping.size, mapping.size, how, mapping.start)
        if got == _FAILED:
            number = ctypes.get_errno()
            raise OSError(number, f"shared memory cannot be copied: {os.strerror(number)}")


def _open(mapping: SharedMapping) -> int | None:
    """Open the file behind `mapping`; return None if it is gone or has been replaced."""
    try:
        descriptor = os.open(mapping.path, os.O_RDONLY)
    except OSError:
        return None
    if os.fstat(descriptor).st_ino == mapping.inode:
        return descriptor
    os.close(descriptor)
    return None
