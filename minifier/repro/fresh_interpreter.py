"""Run a script in a fresh interpreter, and decide whether it shows its failure."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fullgraph.compiler.isolation import ClippedText, run_isolated
from fullgraph.minifier.oracle.failure import NOT_BESIDE, Kind
from fullgraph.minifier.oracle.signatures import find_fake_tensor_error, normalize_message
from fullgraph.minifier.repro.forked_script import DISABLE, NAME, execute_script
from fullgraph.minifier.repro.script_check import ScriptCheck
from fullgraph.minifier.repro.script_text import backend_below, backend_of, lower_backend

_OURS = re.compile(r"PYTHON(?!HASHSEED)|TORCHDYNAMO|TORCH_COMPILE|TORCHINDUCTOR|TORCH_LOGS|TRITON_")
"""Environment variables that would change what a script does, and are removed."""
_NONE = "none"
"""Stands for a backend: no compilation."""
_POLL = 0.1
"""Seconds between two checks whether an interpreter has ended."""
_SITE = """\
import atexit, gc, os, sys

def end():
    if isinstance(getattr(sys, "last_value", None), Exception):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)

gc.set_threshold(100_000, 20, 100)
atexit.register(end)
sys.path.remove(os.environ.pop("PYTHONPATH"))
this = sys.modules.pop("sitecustomize")
try:
    import sitecustomize
except ImportError:
    sys.modules["sitecustomize"] = this
"""
"""Module that an interpreter imports at its start. It makes garbage collection rare, and ends the
process at once after an uncaught exception, which saves a third of its time. Then it imports the
environment's own `sitecustomize`."""


@dataclass(frozen=True)
class ScriptRun:
    """Result of a script's run: how it ended, and its output."""

    code: int | None
    """Exit code; None if a signal or the time limit ended it."""
    signal: str = ""
    """Name of the signal that ended it: "SIGSEGV"; "" if none did."""
    error: str = ""
    """Type of the last exception, without its module; "" if there is none."""
    message: str = ""
    """Message of the last exception."""
    output: str = ""
    """What it printed, without the middle if it is long."""
    seconds: float = 0.0
    """Wall time."""

    @property
    def passed(self) -> bool:
        """Whether the exit code is 0."""
        return self.code == 0

    def __str__(self) -> str:
        if self.signal:
            return f"died of {self.signal}"
        if self.code is None:
            return f"did not end within {self.seconds:.0f} s"
        if self.error:
            return f"{self.error}: {self.message.partition(chr(10))[0]}"
        return f"exit code {self.code}"


@dataclass(frozen=True)
class StandaloneCheck:
    """Whether a script fails in a fresh interpreter, and passes with the backends below."""

    ok: bool
    reason: str
    """One sentence on why it is not; "" if `ok`."""
    ran: ScriptRun
    """The run of the script with its own backend."""
    below: ScriptRun | None = None
    """Run of a control, with a backend that must pass; None if none was run."""
    tried: bool = True
    """Whether it could be run in a fresh interpreter at all."""

    @property
    def fails_control(self) -> bool:
        """Whether the script also fails with a backend with which it must pass."""
        return self.below is not None and not self.below.passed


def run(
    text: str,
    *,
    seconds: float,
    python: str = sys.executable,
    backend: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> ScriptRun:
    """Run a script in a fresh interpreter, for at most `seconds`; no compiled graph is reused.

    `backend` replaces the script's own; "none" disables compilation. The script gets the variables
    of this process except those that change what it does (TORCH_LOGS, …), and `environment` in
    addition.
    """
    start = time.monotonic()
    variables = {k: v for k, v in os.environ.items() if not _OURS.match(k)}
    if backend == _NONE:
        variables[DISABLE] = "1"
    elif backend is not None:
        text = lower_backend(text, backend)
    with tempfile.TemporaryDirectory(prefix="repro-", ignore_cleanup_errors=True) as folder:
        work = Path(folder, "work")
        work.mkdir()
        Path(work, NAME).write_text(text, encoding="utf-8")
        Path(folder, "site").mkdir()
        Path(folder, "site", "sitecustomize.py").write_text(_SITE, encoding="utf-8")
        variables["PYTHONPATH"] = str(Path(folder, "site"))
        variables["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder, "inductor"))
        variables["TORCHINDUCTOR_FX_GRAPH_CACHE"] = "0"
        variables["TRITON_CACHE_DIR"] = str(Path(folder, "triton"))
        variables |= environment or {}
        child = subprocess.Popen(
            [python, "-X", "faulthandler", NAME],
            cwd=work,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            with contextlib.suppress(OSError, AttributeError):  # ended already; not on Linux
                resource.prlimit(child.pid, resource.RLIMIT_CORE, (0, 0))
            printed, ended = _read_output(child, start + seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            code = child.wait()
            if child.stdout is not None:
                child.stdout.close()
    took = time.monotonic() - start
    printed = re.sub(r"^\[rank\d+\]: ?", "", printed, flags=re.MULTILINE)  # of a process group
    if not ended:
        return ScriptRun(None, output=printed, seconds=took)
    error, message = last_exception(printed)
    if code < 0:
        return ScriptRun(None, signal.Signals(-code).name, error, message, printed, took)
    return ScriptRun(code, "", error, message, printed, took)


def _read_output(child: subprocess.Popen[bytes], deadline: float) -> tuple[str, bool]:
    """Return the output of a child until it ends, and True; or until `deadline`, and False."""
    clip = ClippedText()
    assert child.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return clip.text(), False
            ended = child.poll() is not None
            ready = selector.select(0 if ended else min(left, _POLL))
            if ready:
                data = os.read(child.stdout.fileno(), 1 << 16)
                clip.feed(data)
                if data:
                    continue
            if ended:
                return clip.text(), True
            if ready:  # its output is closed, but it goes on
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(left)


def last_exception(printed: str) -> tuple[str, str]:
    """Return (type, message) of the last exception in an output; ("", "") if there is none."""
    blocks = printed.split("Traceback (most recent call last):\n")
    if len(blocks) < 2:
        return "", ""
    lines = blocks[-1].splitlines()
    for number, line in enumerate(lines):
        found = re.match(r"([A-Za-z_][\w.]*)(?:: (.*))?$", line)
        if found:
            rest = [found[2] or "", *lines[number + 1 :]]
            return found[1].rpartition(".")[2], "\n".join(rest).strip()
    return "", ""


def shows_failure(ran: ScriptRun, check: ScriptCheck) -> bool:
    """Return whether a run of a script failed as `check` describes."""
    match check.kind:
        case Kind.CRASH:
            return bool(ran.signal) and ran.signal in (*check.signature, *check.got.split())
        case Kind.HANG:
            return not ran.passed and "Timeout (" in ran.output  # to tell where it is may crash
        case Kind.MEMORY:
            words = ("MemoryError", "bad_alloc", "not enough memory", "can't allocate memory")
            return not ran.passed and any(word in ran.output for word in words)
        case Kind.RECOMPILE:
            return ran.code not in (0, None) and "recompil" in ran.message.lower()
        case Kind.EXCEPTION | Kind.BREAK:
            return ran.code not in (0, None) and _contains_signature(ran, check)
    return ran.code not in (0, None) and asserts_itself(ran.error, ran.output)


def asserts_itself(error: str, printed: str) -> bool:
    """Return whether an assertion of the script failed, rather than one inside torch.

    `error` is the type of the exception, `printed` the output that ends with its traceback.
    """
    last = printed.split("Traceback (most recent call last):\n")[-1]
    files = re.findall(r'^ +File "([^"]+)"', last, re.MULTILINE)
    inside = bool(files) and Path(files[-1]).name != NAME and "torch/testing/" not in files[-1]
    return error == "AssertionError" and not inside


def _contains_signature(ran: ScriptRun, check: ScriptCheck) -> bool:
    """Return whether a run printed the signature of the exception that `check` expects."""
    if not check.signature:
        return bool(ran.error) and check.got.startswith(ran.error)
    kind, message, *place = check.signature
    told = [*ran.output.splitlines(), find_fake_tensor_error(ran.output)]
    lines = [normalize_message(line) for line in told]
    named = any(re.search(rf"\b{re.escape(kind)}\b", line) for line in ran.output.splitlines())
    said = not message or any(message[:120] in line for line in lines)
    return named and said and all(not name or _passed_through(ran.output, name) for name in place)


def _passed_through(printed: str, name: str) -> bool:
    """Return whether a traceback has a frame of function `name`: "torch._inductor.ir.realize"."""
    module, _, function = name.rpartition(".")
    path = re.escape(module.replace(".", "/"))
    return bool(
        re.search(rf'{path}(?:/__init__)?\.py", line \d+, in {re.escape(function)}\b', printed)
    )


def check_standalone(
    text: str,
    check: ScriptCheck,
    *,
    seconds: float,
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
    beside: bool = True,
    passes_controls: bool = False,
) -> StandaloneCheck:
    """Run a script; return whether it fails as `check` says and passes with the control backends.

    The controls are no compilation and the backend one rung below; with `passes_controls`, they are
    known to pass and do not run. `environment` has variables to add. `beside` lets runs overlap.
    """
    backend = backend_of(text)
    if backend is None:
        return StandaloneCheck(
            False, "The script names no backend, or more than one.", ScriptRun(None)
        )
    controls = [] if passes_controls else _controls_of(backend)
    alone = functools.partial(run, text, seconds=seconds, python=python, environment=environment)
    with ThreadPoolExecutor(2 if beside and check.kind not in NOT_BESIDE else 1) as pool:
        ran, *under = pool.map(lambda name: alone(backend=name), (None, *controls))
    for name, control in zip(controls, under, strict=True):
        if not control.passed:
            what = "without compilation" if name == _NONE else f'with backend="{name}"'
            reason = f"The script fails {what} too: it {_describe_ending(control)}."
            return StandaloneCheck(False, reason, ran, control)
    if not shows_failure(ran, check):
        return StandaloneCheck(
            False, f"Run alone, the script does not fail so: it {_describe_ending(ran)}.", ran
        )
    return StandaloneCheck(True, "", ran, under[0] if under else ScriptRun(0))


def _controls_of(backend: str) -> list[str]:
    """Return the backends of the control runs, which must pass: "none", and one rung below."""
    return list(dict.fromkeys((_NONE, backend_below(backend) or _NONE)))


def passes_controls(text: str, seconds: float) -> bool:
    """Return whether a script passes without compilation and one rung below, in forks.

    A fork gets an empty folder, fresh modes and settings. It is faster than a fresh interpreter,
    but inherits more, such as registered operators, so a failure has to be checked again.
    """
    backend = backend_of(text)
    return backend is not None and all(
        _passes_in_fork(text, name, seconds) for name in _controls_of(backend)
    )


def _passes_in_fork(text: str, backend: str, seconds: float) -> bool:
    """Return whether a script passes with `backend`, in a fork of this process."""
    with tempfile.TemporaryDirectory(prefix="repro-", ignore_cleanup_errors=True) as folder:
        job = functools.partial(_run_in_child, text, folder, None if backend == _NONE else backend)
        return run_isolated(job, where="fork", seconds=seconds).status == "ok"


def _run_in_child(text: str, folder: str, backend: str | None, _: object) -> None:
    """Execute a script with `backend` (None: not compiled) in this process, a forked child."""
    execute_script(text, folder, backend)


def _describe_ending(ran: ScriptRun) -> str:
    """Return how a run ended, as a predicate: "passes", "died of SIGSEGV", "ends with …"."""
    if ran.passed:
        return "passes"
    told = str(ran)
    return told if told.startswith(("died", "did not")) else f"ends with {told}"


# --- other versions ---


@dataclass(frozen=True)
class Elsewhere:
    """What a script does with another version of torch: "fails", "passes", …"""

    version: str
    """A version of torch, or the path of an interpreter."""
    state: str
    """One of "fails", "fails differently", "passes", "cannot be installed"."""
    detail: str = ""


def elsewhere(
    text: str,
    check: ScriptCheck,
    versions: Sequence[str],
    *,
    seconds: float,
    install_seconds: float = 900.0,
    index: str | None = None,
) -> tuple[Elsewhere, ...]:
    """Return the outcome of a script with each of `versions`.

    A version is a version of torch, installed in a temporary environment from the package index
    `index`, or the path of an interpreter.
    """
    found = []
    for version in versions:
        if os.sep in version:
            ran = run(text, seconds=seconds, python=version)
            found.append(_outcome_elsewhere(version, ran, check))
            continue
        with tempfile.TemporaryDirectory(prefix="torch-", ignore_cleanup_errors=True) as folder:
            python, problem = _install_torch(version, folder, install_seconds, index)
            if problem:
                found.append(Elsewhere(version, "cannot be installed", problem))
                continue
            found.append(
                _outcome_elsewhere(version, run(text, seconds=seconds, python=python), check)
            )
    return tuple(found)


def _outcome_elsewhere(version: str, ran: ScriptRun, check: ScriptCheck) -> Elsewhere:
    """Return the outcome of a run with another version of torch."""
    if ran.passed:
        return Elsewhere(version, "passes")
    return Elsewhere(
        version, "fails" if shows_failure(ran, check) else "fails differently", str(ran)
    )


def _install_torch(version: str, folder: str, seconds: float, index: str | None) -> tuple[str, str]:
    """Install torch in `folder`; return (path of its Python, "" or an error message)."""
    python = str(Path(folder, "bin", "python"))
    source = ["--index-url", index] if index else []
    for command in (
        [sys.executable, "-m", "venv", folder],
        [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *source,
         f"torch=={version}", "numpy", "setuptools"],
    ):  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        except (OSError, subprocess.TimeoutExpired) as error:
            return python, f"{type(error).__name__} while installing"
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "ERROR" in line]
            return python, (lines or done.stderr.splitlines() or ["pip failed"])[-1].strip()
    return python, ""
