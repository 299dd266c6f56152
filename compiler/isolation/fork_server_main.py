"""The fork server's process: loads the compiler once, then forks a child for each request."""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import sys
import tempfile
import threading
import types
from collections.abc import Callable, Iterable
from dataclasses import replace
from multiprocessing.connection import Connection, Listener

from fullgraph.compiler.isolation.accelerators import has_accelerator
from fullgraph.compiler.isolation.child_process import end_with_parent
from fullgraph.compiler.isolation.fork_safety import choose_process
from fullgraph.compiler.isolation.fork_server import (
    COMMAND,
    CONNECTION,
    INDUCTOR,
    READY,
    ForkRequest,
)
from fullgraph.compiler.isolation.forked_child import Emit, begin_forked
from fullgraph.compiler.isolation.job_outcome import JobOutcome, describe_exception
from fullgraph.compiler.isolation.openmp import pause_openmp
from fullgraph.compiler.isolation.preload import preload_dynamo, preload_inductor
from fullgraph.compiler.isolation.process_state import process_states
from fullgraph.compiler.private import (
    compile_in_process,
    deserialize,
    non_default_config,
    reset_config,
    set_config,
)

_IMPORT_LESS = "FULLGRAPH_FORK_SERVER_IMPORTS_LESS"
"""Environment variable that makes the server import less, set if imports initialise a device."""


def serve(address: str, parent: str, compiler: str, *modules: str) -> None:
    """Fork a child for each request at `address`, until the process `parent` exits.

    `address` is the path of a socket, `parent` a process id. Before the first request, this imports
    `modules`, and also Inductor if `compiler` is `INDUCTOR`; otherwise `compiler` is "".
    """
    end_with_parent(int(parent))
    tempfile.tempdir = os.path.dirname(address)  # the client removes what is left there
    compile_in_process()  # starts no pool of processes
    _preload(modules, compiler == INDUCTOR)
    CONNECTION.address = address
    with Listener(address, "AF_UNIX", backlog=64) as listener:
        sys.stdout.buffer.write(READY)
        sys.stdout.buffer.flush()
        os.dup2(2, 1)  # nobody reads the pipe any more
        while True:
            connection = listener.accept()
            try:
                request: ForkRequest = pickle.loads(connection.recv_bytes())
            except (EOFError, OSError):  # the client is gone
                continue
            _fork_for(request, connection)


def _fork_for(request: ForkRequest, connection: Connection) -> None:
    """Fork a child that runs the requested job; a new thread sends its outcome to the client.

    If the fork fails, the client receives an outcome with the error.
    """

    def on_message(message: object) -> None:
        _send(connection, True, message)

    pause_openmp()
    try:
        wait = begin_forked(
            lambda emit: _run(request, emit),
            seconds=request.seconds,
            memory=request.memory,
            cache=request.cache,
            stop=connection.poll,
            on_message=on_message,
            load=bytes,
        )
    except OSError as error:
        outcome = JobOutcome[object]("raised", "fork", 0.0, error=describe_exception(error))
        _send(connection, False, outcome)
        return
    threading.Thread(target=_send_outcome, args=(connection, wait), daemon=True).start()


def _send_outcome(connection: Connection, wait: Callable[[], JobOutcome[object]]) -> None:
    """Wait for a job to end, and send its outcome to the client."""
    with connection:
        _send(connection, False, replace(wait(), messages=()))


def _send(connection: Connection, is_message: bool, content: object) -> None:
    """Send `content` to the client: a message of the job if `is_message`, else its outcome.

    Does nothing if the client is gone.
    """
    with contextlib.suppress(OSError):  # the client is gone
        connection.send_bytes(pickle.dumps((is_message, content)))


def _run(request: ForkRequest, emit: Emit) -> object:
    """Set the client's state in this child, then run its job and return the result."""
    sys.path[:] = request.path
    sys.modules["__main__"] = types.ModuleType("__main__")  # for definitions of the client's
    os.chdir(request.folder)
    state, settings, job = deserialize(request.job)
    for name in non_default_config().keys() - settings.keys():
        reset_config(name)
    set_config(settings)
    for each in process_states():
        if each.name in state and each.read() != state[each.name]:
            each.write(state[each.name])
    result: object = job(emit)
    return result


def _preload(modules: Iterable[str], inductor: bool) -> None:
    """Load the modules, Dynamo and, with `inductor`, Inductor without initialising a device.

    On a machine without an accelerator, Dynamo and Inductor also compile a tiny function. If an
    import initialises a device, a new process that imports less replaces this one.
    """
    for module in modules:
        importlib.import_module(module)
    imports_less = bool(os.environ.get(_IMPORT_LESS))
    if not has_accelerator():
        preload_dynamo()
        if inductor:
            with contextlib.suppress(Exception):  # no C++ compiler: the job that needs it says so
                preload_inductor()
    elif not imports_less:
        importlib.import_module("torch._dynamo")
        if inductor:
            importlib.import_module("torch._inductor.compile_fx")
    if imports_less or choose_process(())[0] == "fork":
        return
    os.environ[_IMPORT_LESS] = "1"
    os.execv(sys.executable, [*COMMAND, *sys.argv[1:]])


if __name__ == "__main__":
    serve(*sys.argv[1:])
