"""Try a script in a forked child: whether it shows its failure and passes one rung below."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace

import torch

from fullgraph.compiler.isolation import Emit, JobOutcome, begin_isolated
from fullgraph.compiler.numerics import Mismatch, find_mismatch
from fullgraph.compiler.results import run_and_record
from fullgraph.minifier.oracle.failure import Failure, Kind, failure_of_exception
from fullgraph.minifier.repro.forked_script import execute_script
from fullgraph.minifier.repro.fresh_interpreter import asserts_itself
from fullgraph.minifier.repro.script_check import ScriptCheck
from fullgraph.minifier.repro.script_text import backend_below, backend_of, compared_expressions

_PASSES_BELOW = "passes below"
"""Message of a trial whose script passes without compilation and one rung below."""
_PRINTED = ("dtype", "shape", "stride", "layout", "requires_grad", "value", "type", "keys")
"""Aspects that a script compares by `assert got == expected`."""


def begin_trial(
    text: str,
    check: ScriptCheck,
    *,
    seconds: float,
    cache: str | None = None,
    strict: bool = True,
) -> Callable[[], ScriptCheck | None]:
    """Start a trial of a script in a forked child; return a function that waits for its result.

    The result is `check` with the values that this script shows. It is None unless the script
    passes without compilation and one rung below, and then fails as `check` says. If not `strict`,
    compared values may differ in another aspect (dtype, shape) than in `check`. `cache` is
    Inductor's folder.
    """
    folder = tempfile.mkdtemp(prefix="repro-")
    job = functools.partial(_try_in_child, text, folder, check.aspect)
    wait = begin_isolated(job, seconds=seconds, cache=cache)

    def finish() -> ScriptCheck | None:
        """Wait for the child; return the check with the values that it showed, or None."""
        try:
            return _shown_failure(wait(), check, strict)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return finish


def _shown_failure(
    outcome: JobOutcome[None], check: ScriptCheck, strict: bool
) -> ScriptCheck | None:
    """Return `check` with the values that a trial showed; None if it did not fail as `check` says.

    If not `strict`, the compared values may differ in another aspect than in `check`.
    """
    if _PASSES_BELOW not in outcome.messages:
        return None
    failure = next((m for m in outcome.messages if isinstance(m, Failure)), None)
    pair = next((m for m in outcome.messages if isinstance(m, Mismatch)), None)
    match check.kind:
        case Kind.CRASH:
            signalled = outcome.status == "signal" and outcome.signal in check.signature
            return check if signalled else None
        case Kind.RECOMPILE:
            told = failure is not None and "recompil" in failure.message.lower()
            return check if told else None
        case Kind.EXCEPTION | Kind.BREAK:
            if failure is None or failure.signature != check.signature:
                return None
            return replace(check, got=failure.message.strip().partition("\n")[0])
    if failure is None or not asserts_itself(failure.signature[0], failure.details):
        return None
    if pair is None:
        return check
    found = replace(
        check,
        aspect=pair.aspect,
        expected=pair.expected,
        got=pair.got,
        element=pair.where.removeprefix("output") + pair.element,
    )
    return found if not strict or _same_difference(found, check) else None


def _same_difference(found: ScriptCheck, check: ScriptCheck) -> bool:
    """Return whether two checks are on the same aspect, such as "shape".

    For a dtype, a layout or `requires_grad`, the values must be the same, too.
    """
    if found.aspect in ("dtype", "layout", "requires_grad"):
        return found == check
    return found.aspect == check.aspect


def _try_in_child(text: str, folder: str, aspect: str, emit: Emit) -> None:
    """Run a script in this forked child: without compilation, one rung below, and then unchanged.

    Emits a message if the first two runs pass, then the failure of the third, and the values that
    it compares. `aspect` names what `==` compares: "dtype".
    """
    backend = backend_of(text)
    if backend is None:
        return
    for control in dict.fromkeys((None, backend_below(backend))):
        execute_script(text, folder, control)
    emit(_PASSES_BELOW)
    names: dict[str, object] = {}
    try:
        execute_script(text, folder, backend, names)
    except Exception as error:
        emit(failure_of_exception(backend, error))
        pair = _compared_values(text, names, aspect)
        if pair is not None:
            emit(pair)


def _compared_values(text: str, names: dict[str, object], aspect: str) -> Mismatch | None:
    """Return the difference between the values that a script's last statement compares.

    `names` are the script's variables, and `aspect` is the name of what `==` compares: "dtype".
    None if the difference cannot be found.
    """
    found = compared_expressions(text)
    if found is None:
        return None
    try:
        got, expected = (eval(one, dict(names)) for one in found[:2])
        if found[2]:
            results = [run_and_record(lambda v=v: v, (), {}) for v in (expected, got)]
            difference = find_mismatch(*results, strides=False)
            if difference is None or difference.aspect != "type":
                return difference
            aspect = "type"
    except Exception:
        return None
    if aspect not in _PRINTED:
        return None
    return Mismatch("result", "output", aspect, _format_value(expected), _format_value(got))


def _format_value(value: object) -> str:
    """Return a value as text on one line."""
    if type(value).__module__.startswith("numpy") and hasattr(value, "itemsize"):
        return str(value)
    if isinstance(value, type):
        return (
            value.__name__
            if value.__module__ == "builtins"
            else f"{value.__module__}.{value.__qualname__}"
        )
    value = tuple(value) if isinstance(value, torch.Size) else value
    return " ".join(repr(value).split())
