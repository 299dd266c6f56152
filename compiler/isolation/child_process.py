"""Setup of a forked child that makes it independent of its parent. Linux only."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import resource
import signal
import sys

import torch

from fullgraph.compiler.isolation.output_capture import redirect_output
from fullgraph.compiler.isolation.process_groups import detach_process_groups
from fullgraph.compiler.isolation.shared_memory import make_shared_memory_private
from fullgraph.compiler.private import compile_in_process, skip_guard_profiling
from fullgraph.compiler.sources import freeze_inherited_objects


def enter_child(parent: int, output: int, cache: str) -> None:
    """Separate this forked child from its parent, the process with the id `parent`.

    The child then prints to the file descriptor `output`, and Inductor builds in the folder
    `cache`. Shared memory is private to the child, and collectives run without the other ranks.
    """
    _detach_from(parent)
    _replace_streams(output)
    make_shared_memory_private()
    _reset_compiler(cache)
    detach_process_groups()  # the threads that talk to the other ranks are not here


def end_with_parent(parent: int) -> None:
    """Make the kernel kill this process when the process with the id `parent` exits.

    If that process has already exited, exit now.
    """
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def _detach_from(parent: int) -> None:
    """Give this forked child its own session and default signal handlers, and no core dumps.

    It ends when its parent, the process with the id `parent`, ends. Its garbage collector ignores
    the objects that it inherited.
    """
    os.setsid()
    end_with_parent(parent)
    signal.set_wakeup_fd(-1)  # of an event loop
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    freeze_inherited_objects()


def _replace_streams(output: int) -> None:
    """Make descriptor `output` this process's stdout and stderr, and close its stdin."""
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    sys.stdin = os.fdopen(0, closefd=False)
    redirect_output(output)
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, f"__{name}__", getattr(sys, name))
    os.close(empty)
    os.close(output)
    faulthandler.enable(2)  # a crash names its Python line, and not on the parent's stderr


def _reset_compiler(cache: str) -> None:
    """Reset Dynamo, use one thread, and make Inductor and Triton write to the folder `cache`."""
    # libgomp's threads are not in the child: a parallel op would wait for them forever
    torch.set_num_threads(1)
    compile_in_process()  # nor is Inductor's pool of processes
    skip_guard_profiling()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
    os.environ["TRITON_CACHE_DIR"] = os.path.join(cache, "triton")
    if "torch._dynamo" in sys.modules:  # else nothing was compiled yet
        torch.compiler.reset()
