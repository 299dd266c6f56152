"""State of the whole process that a job can change, with getters and setters."""

from __future__ import annotations

import functools
import logging
import operator
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from fullgraph.compiler.private import (
    get_configs,
    get_default_device,
    get_log_state,
    set_configs,
    set_log_state,
)


@dataclass(frozen=True)
class ProcessState:
    """Functions that read and restore one piece of process state, such as the environment.

    `read` returns a value that `==` can compare; `write` restores the state from such a value.
    """

    name: str
    read: Callable[[], object]
    write: Callable[[Any], object]
    show: Callable[[Any], str] = repr
    """Function that returns a value of `read` as text, for a digest."""

    @property
    def is_readable(self) -> bool:
        """Whether `read` works: this torch has the state, and no other setting contradicts it."""
        try:
            self.read()
        except Exception:
            return False
        return True


def process_states() -> list[ProcessState]:
    """Return all process state that can be read now, of torch, Python and loaded libraries."""
    return [
        each
        for each in (*_random_states(), *_torch_states(), *_python_states())
        if each.is_readable
    ]


def _to_bytes(state: torch.Tensor) -> bytes:
    return state.numpy().tobytes()


def _from_bytes(state: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(state), dtype=torch.uint8)


def _random_states() -> Iterator[ProcessState]:
    """Yield a `ProcessState` for each kind of random generator: torch's, Python's, NumPy's."""

    def device_generators(backend: Any) -> ProcessState:
        """Return the state of the default generators of `backend`, such as torch.cuda."""
        return ProcessState(
            f"{backend.__name__} random numbers",
            lambda: [_to_bytes(state) for state in backend.get_rng_state_all()],
            lambda states: backend.set_rng_state_all([_from_bytes(state) for state in states]),
        )

    yield ProcessState(
        "torch random numbers",
        lambda: _to_bytes(torch.get_rng_state()),
        lambda state: torch.set_rng_state(_from_bytes(state)),
    )
    yield from (device_generators(one) for one in (torch.cuda, torch.xpu) if one.is_initialized())
    if torch.backends.mps.is_available():
        yield ProcessState(
            "torch.mps random numbers",
            lambda: _to_bytes(torch.mps.get_rng_state()),
            lambda state: torch.mps.set_rng_state(_from_bytes(state)),
        )
    numpy = sys.modules.get("numpy")
    if numpy is not None:

        def as_tuple() -> tuple[object, ...]:
            """Return NumPy's random state as a tuple that `==` compares."""
            kind, keys, *rest = numpy.random.get_state()
            return (kind, tuple(keys.tolist()), *rest)

        yield ProcessState("numpy random numbers", as_tuple, numpy.random.set_state)
    yield ProcessState("random numbers of Python", random.getstate, random.setstate)


_SETTINGS = (
    ("backends.cudnn", ("enabled", "benchmark", "deterministic", "fp32_precision")),
    ("backends.cuda.matmul", ("fp32_precision", "allow_fp16_reduced_precision_reduction")),
    ("backends.mkldnn", ("enabled", "deterministic", "fp32_precision")),
    ("backends", ("fp32_precision",)),
    ("utils.deterministic", ("fill_uninitialized_memory",)),
)


def _torch_states() -> Iterator[ProcessState]:
    """Yield a `ProcessState` for each process-wide setting of torch, such as the grad mode."""
    yield ProcessState("grad mode", torch.is_grad_enabled, torch.set_grad_enabled)
    yield ProcessState("default dtype", torch.get_default_dtype, torch.set_default_dtype)
    yield ProcessState("default device", get_default_device, torch.set_default_device)
    yield from (
        ProcessState(f"current device of {one.__name__}", one.current_device, one.set_device)
        for one in (torch.cuda, torch.xpu)
        if one.is_initialized()
    )
    yield ProcessState("number of threads", torch.get_num_threads, torch.set_num_threads)
    yield ProcessState(
        "deterministic algorithms",
        torch.get_deterministic_debug_mode,
        torch.set_deterministic_debug_mode,
    )
    yield ProcessState(
        "anomaly detection",
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        lambda now: torch.autograd.set_detect_anomaly(*now),
    )
    yield ProcessState(
        "autocast cache", torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled
    )
    for device in ("cpu", "cuda"):
        yield ProcessState(
            f"autocast on {device}",
            functools.partial(_autocast_state, device),
            functools.partial(_set_autocast, device),
        )
    sdp = torch.backends.cuda
    for kind in ("flash", "mem_efficient", "math", "cudnn"):
        read = getattr(sdp, f"{kind}_sdp_enabled", None)
        write = getattr(sdp, f"enable_{kind}_sdp", None)
        if read is not None and write is not None:
            yield ProcessState(f"{kind} attention", read, write)
    for path, names in _SETTINGS:
        owner = operator.attrgetter(path)(torch)
        for name in names:
            yield ProcessState(
                f"torch.{path}.{name}",
                functools.partial(getattr, owner, name),
                functools.partial(setattr, owner, name),
            )
    yield ProcessState("configuration of torch.compile", get_configs, set_configs)
    yield ProcessState("logging of torch", get_log_state, set_log_state)


def _autocast_state(device: str) -> tuple[bool, torch.dtype]:
    return torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)


def _set_autocast(device: str, saved: tuple[bool, torch.dtype]) -> None:
    """Restore autocast for a device type; `saved` is (whether it is on, its dtype)."""
    torch.set_autocast_enabled(device, saved[0])
    torch.set_autocast_dtype(device, saved[1])


def _python_states() -> Iterator[ProcessState]:
    """Yield a `ProcessState` for each of Python's settings: environment, streams, loggers, …"""
    yield ProcessState("environment variables", lambda: dict(os.environ), _set_environment)
    yield ProcessState("current folder", os.getcwd, os.chdir)
    yield ProcessState("sys.path", lambda: list(sys.path), _set_path)
    yield ProcessState("recursion limit", sys.getrecursionlimit, sys.setrecursionlimit)
    yield ProcessState("standard streams", _standard_streams, _set_streams)
    yield ProcessState("warnings filters", lambda: list(warnings.filters), _set_filters)
    yield ProcessState("loggers", _logger_states, _set_logger_states, _show_logger_states)


def _set_path(saved: list[str]) -> None:
    sys.path[:] = saved


def _standard_streams() -> tuple[object, ...]:
    """Return the standard streams, and the hooks that print to them."""
    return sys.stdin, sys.stdout, sys.stderr, sys.excepthook, sys.displayhook


def _set_streams(saved: tuple[Any, ...]) -> None:
    sys.stdin, sys.stdout, sys.stderr, sys.excepthook, sys.displayhook = saved


def _set_environment(saved: dict[str, str]) -> None:
    """Restore the environment variables to `saved`, changing only those that differ."""
    for name in os.environ.keys() - saved.keys():
        del os.environ[name]
    for name, value in saved.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _set_filters(saved: list[Any]) -> None:
    """Restore the warning filters to `saved`, in the same list object."""
    with warnings.catch_warnings():  # its end invalidates the cached filters
        pass
    warnings.filters[:] = saved  # type: ignore[index]


def _logger_states() -> dict[str, tuple[object, ...]]:
    """Return level, propagation, handlers and filters of each logger by name."""
    named = {"": logging.root, **logging.root.manager.loggerDict}
    return {
        name: (one.level, one.propagate, one.disabled, tuple(one.handlers), tuple(one.filters))
        for name, one in named.items()
        if isinstance(one, logging.Logger)
    }


def _set_logger_states(saved: dict[str, tuple[Any, ...]]) -> None:
    """Restore level, propagation, handlers and filters of each logger in `saved`, by name."""
    for name, (level, propagate, disabled, handlers, filters) in saved.items():
        logger = logging.getLogger(name)
        logger.propagate, logger.disabled = propagate, disabled
        logger.handlers[:], logger.filters[:] = handlers, filters
        if logger.level != level:
            logger.setLevel(level)


def _show_logger_states(states: dict[str, tuple[object, ...]]) -> str:
    """Return logger states as text for a digest; leave out loggers with default settings."""
    return repr({name: s for name, s in states.items() if s[0] or any(s[2:])})
