"""A process that forks for those which cannot, since they have touched a device.

It has never done so itself: each of its children finds the device untouched, and opens it when
what it is handed needs that. A child can ask for further ones, and they are its siblings.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import re
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, TypeVar

import torch

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.isolation import openmp
from fullgraph.compiler.isolation import process_state as ambient
from fullgraph.compiler.isolation.outcome import Error, Outcome, describe
from fullgraph.compiler.private import torch_state as settings
from fullgraph.compiler.private.pickling import packed, unpacked

T = TypeVar("T")
Job = Callable[[Callable[[object], None]], T]

_COMMAND = (sys.executable, "-P", "-m", "fullgraph.compiler.isolation.fork_server")
_INDUCTOR = "inductor"
_READY = b"ready\n"
_POLL = 0.05
"""Seconds between looks at whether a child is to be ended."""
_OWN = re.compile("random|streams|environment|folder|sys.path|logg|warnings|threads|configuration")
"""Names of facts that are a child's own, or are handed on in another way."""

_LONG = 70
"""Characters of a folder's path in which a socket may have no place any more."""
_one_at_a_time = threading.RLock()
_address: str | None = None
"""Where the process listens that forks for this one; None: nobody does."""


def asked() -> bool:
    """Whether another process forks for this one."""
    return _address is not None


@contextlib.contextmanager
def used(*modules: str, inductor: bool) -> Iterator[None]:
    """Meanwhile let a fresh process fork for this one. It ends with this one at the latest.

    It loads `modules` and perhaps Inductor, so that not each of its children has to: no device may
    be touched by that.
    """
    with _one_at_a_time, tempfile.TemporaryDirectory(prefix="fullgraph-", dir=_near()) as folder:
        address = os.path.join(folder, "standby")
        server = subprocess.Popen(
            [*_COMMAND, address, str(os.getpid()), _INDUCTOR * inductor, *modules],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )
        with server, _listening(server, address):
            yield


def _near() -> str | None:
    """Where a socket can be: its path must not be long."""
    return "/tmp" if len(tempfile.gettempdir()) > _LONG else None


@contextlib.contextmanager
def _listening(server: subprocess.Popen[bytes], address: str) -> Iterator[None]:
    global _address
    try:
        assert server.stdout is not None
        if _READY not in server.stdout:
            raise FullgraphError(
                f"A fresh process could not be started: `{' '.join(_COMMAND)}` ended with exit "
                f"code {server.wait()}."
            )
        _address = address
        yield
    finally:
        _address = None
        server.kill()


def begin(
    job: Job[T],
    *,
    seconds: float | None,
    memory: int | None = None,
    cache: str | None = None,
    stop: Callable[[], bool] = lambda: False,
    on_message: Callable[[object], None] | None = None,
) -> Callable[[], Outcome[T]]:
    """As `forked.begin_forked`, in a child of the process that forks for this one.

    `job` is handed on as `parcel.packed` does. Raises FullgraphError where it cannot be.
    """
    assert _address is not None
    parts = (sys.path, os.getcwd(), packed((_handed(), job)))
    messages: list[object] = []
    connection = Client(_address, "AF_UNIX")
    try:
        connection.send_bytes(pickle.dumps(_Request(parts, seconds, memory, cache)))
    except BaseException:
        connection.close()
        raise

    def wait() -> Outcome[T]:
        with connection:
            while True:
                while not connection.poll(_POLL):
                    if stop():
                        with contextlib.suppress(OSError):  # it ended meanwhile
                            connection.send_bytes(b"stop")
                try:
                    kind, content = pickle.loads(connection.recv_bytes())
                except (EOFError, ConnectionError):
                    return _lost()
                if kind == "end":
                    return _opened(content, messages)
                messages.append(pickle.loads(content))
                if on_message is not None:
                    on_message(messages[-1])

    return wait


def _opened(outcome: Outcome[Any], messages: Sequence[object]) -> Outcome[Any]:
    """An outcome with what the child said, which the process that forks has not looked into: it
    would have to import what that is made of."""
    value, error = outcome.value, outcome.error
    try:
        value = pickle.loads(value) if isinstance(value, bytes) else value
        error = pickle.loads(error) if isinstance(error, bytes) else error
    except Exception as failure:  # of a class that only the child could import
        return replace(outcome, status="raised", value=None, error=describe(failure))
    return replace(outcome, value=value, error=error, messages=tuple(messages))


def _lost() -> Outcome[Any]:
    error = Error("EOFError", "builtins", "the process that forks was ended from outside", "")
    return Outcome("raised", "fork", 0.0, error=error)


# --- what a child is told ---


_Parts = tuple[list[str], str, bytes]
"""`sys.path`, the current folder, and with the job what is handed on of this process."""


@dataclass(frozen=True)
class _Request:
    parts: _Parts
    seconds: float | None
    memory: int | None
    cache: str | None


def _handed() -> tuple[dict[str, Any], dict[str, Any]]:
    """The facts of this process that change what a program does, and the compiler's settings."""
    facts = {fact.name: fact.read() for fact in ambient.facts() if not _OWN.search(fact.name)}
    device = torch.get_default_device()
    if device.type != "cpu":  # perhaps of a `with`, which no fact tells of
        facts["default device"] = device
    return facts, settings.changed()


def _taken(facts: dict[str, Any], changed: dict[str, Any]) -> None:
    for name in settings.changed().keys() - changed.keys():
        settings.reset(name)
    settings.set_forever(changed)
    for fact in ambient.facts():
        if fact.name in facts and fact.read() != facts[fact.name]:
            fact.write(facts[fact.name])


def _unpacked(parts: _Parts) -> Job[Any]:
    """In the child, what it is to do there."""
    path, folder, content = parts
    sys.path[:] = path
    sys.modules["__main__"] = types.ModuleType("__main__")  # for what is of the other's
    os.chdir(folder)
    handed, job = unpacked(content)
    _taken(*handed)
    return job


# --- the process that forks ---


def _serve(address: str, parent: str, compiler: str, *modules: str) -> None:
    from fullgraph.compiler.isolation.forked_child import begin_forked, end_with_parent

    global _address
    end_with_parent(int(parent))
    tempfile.tempdir = os.path.dirname(address)  # whoever asked takes all away that is left there
    settings.compile_in_one_thread()  # no pool of processes is begun
    _load(modules, compiler == _INDUCTOR)
    _address = address
    with Listener(address, "AF_UNIX", backlog=64) as listener:
        sys.stdout.buffer.write(_READY)
        sys.stdout.buffer.flush()
        os.dup2(2, 1)  # nobody reads the pipe any more
        while True:
            connection = listener.accept()
            try:
                request: _Request = pickle.loads(connection.recv_bytes())
            except (EOFError, OSError):  # whoever asked is gone
                continue
            openmp.rest()
            try:
                wait = begin_forked(
                    lambda say, parts=request.parts: _unpacked(parts)(say),  # type: ignore[misc]
                    seconds=request.seconds,
                    memory=request.memory,
                    cache=request.cache,
                    stop=connection.poll,
                    on_message=lambda said, to=connection: _tell(to, "message", said),  # type: ignore[misc]
                    opened=bytes,
                )
            except OSError as error:
                _tell(connection, "end", Outcome("raised", "fork", 0.0, error=describe(error)))
                continue
            threading.Thread(target=_answer, args=(connection, wait), daemon=True).start()


def _answer(connection: Connection, wait: Callable[[], Outcome[Any]]) -> None:
    with connection:
        _tell(connection, "end", replace(wait(), messages=()))


def _tell(connection: Connection, kind: str, content: object) -> None:
    with contextlib.suppress(OSError):  # whoever asked is gone
        connection.send_bytes(pickle.dumps((kind, content)))


def _load(modules: Iterable[str], inductor: bool) -> None:
    """Load for the children what can be loaded without a look at a device: the modules, and Dynamo
    and perhaps Inductor compile something where torch knows no device. Else they are imported; and
    if that touches one, a new process takes this one's place that imports less."""
    from fullgraph.compiler.isolation import preload as warm
    from fullgraph.compiler.isolation import run as isolation

    for module in modules:
        importlib.import_module(module)
    plain = os.environ.get("FULLGRAPH_STANDBY") == "plain"
    if torch.accelerator.current_accelerator() is None:
        warm.up()
        if inductor:
            with contextlib.suppress(Exception):  # no C++ compiler: it is told where it is needed
                warm.inductor()
    elif not plain:
        importlib.import_module("torch._dynamo")
        if inductor:
            importlib.import_module("torch._inductor.compile_fx")
    if isolation.choose(())[0] == "fork" or plain:
        return
    os.environ["FULLGRAPH_STANDBY"] = "plain"
    os.execv(sys.executable, [*_COMMAND, *sys.argv[1:]])


if __name__ == "__main__":
    from fullgraph.compiler.isolation import fork_server as standby

    standby._serve(*sys.argv[1:])
