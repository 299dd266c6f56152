"""Fork server for a process that cannot fork because it has initialised a device.

The server initialises no device, so each of its children can. A child may ask the server for
further children, which are its siblings.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Client
from typing import Any, TypeVar

import torch

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.isolation.forked_child import Emit, Job
from fullgraph.compiler.isolation.job_outcome import JobError, JobOutcome, describe_exception
from fullgraph.compiler.isolation.process_state import process_states
from fullgraph.compiler.private import non_default_config, serialize

T = TypeVar("T")

COMMAND = (sys.executable, "-P", "-m", "fullgraph.compiler.isolation.fork_server_main")
INDUCTOR = "inductor"
"""Argument of `COMMAND` that makes the server load Inductor."""
READY = b"ready\n"
"""Line that the server prints when it is ready for requests."""
_POLL = 0.05
"""Seconds between calls of `stop()` while a child runs."""
_NOT_SENT = re.compile("random|streams|environment|folder|sys.path|logg|warnings|threads|config")
"""Pattern for names of process state not to send: each child has its own, or gets it otherwise."""
_LONG_PATH = 70
"""Longest path of the temporary folder, in characters, in which to create the socket."""


@dataclass
class ForkServerConnection:
    """Socket address of this process's fork server (None without one), and its lock.

    Forked children inherit both.
    """

    address: str | None = None
    """Path of the server's socket; None if this process has no server."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held while a server runs, so that there is one at a time."""


CONNECTION = ForkServerConnection()


@dataclass(frozen=True)
class ForkRequest:
    """A job for a child of the fork server, and its limits."""

    path: list[str]
    """`sys.path` of the client, the process that sends the request."""
    folder: str
    """The client's current folder."""
    job: bytes
    """Serialized tuple of process state, compiler settings and the job."""
    seconds: float | None
    memory: int | None
    cache: str | None


def has_fork_server() -> bool:
    """Return whether this process has a fork server, which forks in its place."""
    return CONNECTION.address is not None


def leave_fork_server() -> None:
    """Make this process, a child of the fork server, fork its own children without the server."""
    CONNECTION.address = None


@contextlib.contextmanager
def running_fork_server(*modules: str, inductor: bool) -> Iterator[None]:
    """Start a fork server for this process, and stop it after the block.

    The server imports `modules`, and Inductor if `inductor` is True, so that its children need not
    import them again. The imports must not initialise a device. Raises FullgraphError if the
    server does not start.
    """
    short = "/tmp" if len(tempfile.gettempdir()) > _LONG_PATH else None
    with CONNECTION.lock, tempfile.TemporaryDirectory(prefix="fullgraph-", dir=short) as folder:
        address = os.path.join(folder, "fork_server")
        server = subprocess.Popen(
            [*COMMAND, address, str(os.getpid()), INDUCTOR * inductor, *modules],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )
        with server:
            try:
                assert server.stdout is not None
                if READY not in server.stdout:
                    raise FullgraphError(
                        f"A fresh process could not be started: `{' '.join(COMMAND)}` ended with "
                        f"exit code {server.wait()}."
                    )
                CONNECTION.address = address
                yield
            finally:
                CONNECTION.address = None
                server.kill()


def begin_in_fork_server(
    job: Job[T],
    *,
    seconds: float | None,
    memory: int | None = None,
    cache: str | None = None,
    stop: Callable[[], bool] = lambda: False,
    on_message: Emit | None = None,
) -> Callable[[], JobOutcome[T]]:
    """Begin `job` in a child of the fork server; return a function that waits for its outcome.

    The child is killed after `seconds`, if it allocates more than `memory` bytes (None: no limit),
    or if `stop()` returns True. Inductor builds in the folder `cache`; None means a temporary one.
    `on_message` receives what the job emits. Raises FullgraphError if the job cannot be pickled.
    """
    assert CONNECTION.address is not None
    content = serialize((_state_to_send(), non_default_config(), job))
    request = ForkRequest(sys.path, os.getcwd(), content, seconds, memory, cache)
    messages: list[object] = []
    connection = Client(CONNECTION.address, "AF_UNIX")
    try:
        connection.send_bytes(pickle.dumps(request))
    except BaseException:
        connection.close()
        raise

    def wait() -> JobOutcome[T]:
        """Receive messages until the outcome arrives; stop the job when `stop()` is true."""
        with connection:
            while True:
                while not connection.poll(_POLL):
                    if stop():
                        with contextlib.suppress(OSError):  # it has ended since
                            connection.send_bytes(b"stop")
                try:
                    message, content = pickle.loads(connection.recv_bytes())
                except (EOFError, ConnectionError):
                    text = "the process that forks was ended from outside"
                    error = JobError("EOFError", "builtins", text, "")
                    return JobOutcome("raised", "fork", 0.0, error=error)
                if not message:
                    return replace(_unpickle_outcome(content), messages=tuple(messages))
                messages.append(pickle.loads(content))
                if on_message is not None:
                    on_message(messages[-1])

    return wait


def _unpickle_outcome(outcome: JobOutcome[object]) -> JobOutcome[Any]:
    """Return an outcome with its value and error unpickled.

    The server forwards both as bytes, so that it need not import their classes.
    """
    value, error = outcome.value, outcome.error
    try:
        value = pickle.loads(value) if isinstance(value, bytes) else value
        error = pickle.loads(error) if isinstance(error, bytes) else error
    except Exception as failure:  # of a class that only the child could import
        return replace(outcome, status="raised", value=None, error=describe_exception(failure))
    return replace(outcome, value=value, error=error)


def _state_to_send() -> dict[str, object]:
    """Return the state of this process that may change a program's behaviour, by name.

    {"grad mode": True, …}: a child of the fork server sets it before it runs a job.
    """
    state = {each.name: each.read() for each in process_states() if not _NOT_SENT.search(each.name)}
    device = torch.get_default_device()
    if device.type != "cpu":  # it may come from a `with`, which no process state shows
        state["default device"] = device
    return state
