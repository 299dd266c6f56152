"""What a caller can see of a program: results, exceptions, arguments, gradients, state, output.

It uses nothing of `rewrites/proof`, which is what the audit judges.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import itertools
import logging
import os
import random
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.testing import assert_close

CALLS = 2
"""Calls with the same arguments: what one leaves behind reaches the next."""
_numbers = itertools.count()


def load(text: str, folder: Path) -> ModuleType:
    """Import `text` from a file of its own."""
    name = f"audited_{os.getpid()}_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(module: ModuleType) -> tuple[Any, tuple[Any, ...]]:
    """Return the program and its ordinary inputs, the same in each process."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    program, inputs = module.build()
    return program, inputs


def outcomes(text: str, *, compiled: bool) -> Iterator[dict[str, Any]]:
    """Yield what a caller sees of the program in `text`, for each witness."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(len(load(text, Path(folder)).witnesses())):
            yield _outcome(text, number, compiled, Path(folder))


def _outcome(text: str, number: int, compiled: bool, folder: Path) -> dict[str, Any]:
    torch.compiler.reset()
    module = load(text, folder)
    program, _ = build(module)
    arguments = module.witnesses()[number]
    called = torch.compile(program, backend="eager") if compiled else program
    seen: dict[str, Any] = {}
    for call in range(CALLS):
        with _noting_output() as output:
            try:
                result = called(*arguments)
            except Exception as error:
                seen[f"call {call}"] = _raised(error, module, compiled)
            else:
                seen[f"call {call}"] = _data(result)
                seen[f"aliases {call}"] = _aliases(result, arguments)
                seen[f"error of backward {call}"] = _backward(result)
        seen[f"output {call}"] = output
    leaves = [*_tensors(arguments)]
    seen |= {"arguments": _data(arguments), "gradients": [leaf.grad for leaf in leaves]}
    if isinstance(program, torch.nn.Module):
        seen["parameters"] = {name: p.grad for name, p in program.named_parameters()}
        seen["state"] = program.state_dict()
        plain = {n: v for n, v in vars(program).items() if not n.startswith("_")}
        seen["attributes"] = {n: v for n, v in plain.items() if _is_plain(v)}
    if hasattr(module, "observe"):
        seen["observed"] = _data(module.observe())
    return seen


def differences(
    expected: Mapping[str, Any], actual: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield the name of each part that differs, and how."""
    for name in {**expected, **actual}:
        try:
            _compare(expected.get(name), actual.get(name))
        except (AssertionError, TypeError, ValueError, RuntimeError) as error:
            yield name, " ".join(str(error).split())[:300]


def _compare(expected: Any, actual: Any) -> None:
    if isinstance(expected, torch.Tensor) and isinstance(actual, torch.Tensor):
        kinds = type(expected).__qualname__, type(actual).__qualname__
        assert kinds[0] == kinds[1], f"{kinds[1]} instead of {kinds[0]}"
        kept = expected.requires_grad, actual.requires_grad
        assert kept[0] == kept[1], f"requires_grad {kept[1]} instead of {kept[0]}"
        plain = (one.as_subclass(torch.Tensor) for one in (actual, expected))
        assert_close(*plain, equal_nan=True)
    elif isinstance(expected, dict) and isinstance(actual, dict):
        assert expected.keys() == actual.keys(), f"{[*actual]} instead of {[*expected]}"
        for name in expected:
            _compare(expected[name], actual[name])
    elif isinstance(expected, list | tuple) and type(expected) is type(actual):
        assert len(expected) == len(actual), f"{len(actual)} items instead of {len(expected)}"
        for one, other in zip(expected, actual, strict=True):
            _compare(one, other)
    elif isinstance(expected, float | complex) and type(expected) is type(actual):
        assert_close(actual, expected, equal_nan=True)
    elif isinstance(expected, np.ndarray) and isinstance(actual, np.ndarray):
        assert expected.dtype == actual.dtype, f"{actual.dtype} instead of {expected.dtype}"
        np.testing.assert_allclose(actual, expected, rtol=1e-5)
    else:
        same = type(expected) is type(actual) and bool(expected == actual)
        assert same, f"{actual!r} instead of {expected!r}"


def _data(value: Any) -> Any:
    """Return a copy of a value, with objects as the data that they hold."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {
            "type": type(value).__name__,
            **{n: _data(getattr(value, n)) for n in value._fields},
        }
    if isinstance(value, list | tuple):
        return tuple(map(_data, value)) if type(value) is tuple else [*map(_data, value)]
    if isinstance(value, dict):
        return {key: _data(one) for key, one in value.items()}
    known = np.generic | int | float | complex | str | bytes | None
    if isinstance(value, known):
        return value
    held = getattr(value, "__dict__", {})
    return {"type": type(value).__name__, **{n: _data(v) for n, v in held.items() if _is_plain(v)}}


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple | set):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    return isinstance(value, torch.Tensor | int | float | complex | str | None)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors([*value.values()])
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(one)


def _aliases(result: Any, arguments: Any) -> list[list[bool]]:
    """Return which results share memory with which arguments."""

    def memory(tensor: torch.Tensor) -> int:
        return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else 0

    own = [memory(one) for one in _tensors(arguments)]
    return [[memory(one) == other != 0 for other in own] for one in _tensors(result)]


def _backward(result: Any) -> str:
    floats = [one for one in _tensors(result) if one.requires_grad]
    try:
        if floats:
            sum(one.abs().sum() for one in floats).backward()  # type: ignore[union-attr]
    except RuntimeError as error:
        return type(error).__name__
    return ""


def _raised(error: Exception, module: ModuleType, compiled: bool) -> tuple[str, ...]:
    """Return what a caller can rely on of an exception: of an operator's error, that it is one.

    A compiled program raises Dynamo's error in place of an operator's, and RuntimeError for an
    `assert` on a tensor: there, too, that it raises is all that counts.
    """
    last = traceback.extract_tb(error.__traceback__)[-1]
    states = (last.line or "").lstrip().startswith(("raise", "assert"))
    if compiled or not states or "site-packages" in last.filename:
        return ("an exception",)
    return type(error).__name__, _message(error, module)


def _message(error: Exception, module: ModuleType) -> str:
    return str(error).replace(str(module.__file__), "FILE").replace(module.__name__, "MODULE")


class _Records(logging.Handler):
    def __init__(self, into: list[str]) -> None:
        super().__init__()
        self._into = into

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith("torch"):
            self._into.append(f"{record.levelname} {record.funcName}: {record.getMessage()}")


@contextlib.contextmanager
def _noting_output() -> Iterator[list[str]]:
    """Yield a list that holds what was printed, warned and logged after the block.

    A DeprecationWarning speaks to the author of the code, who has edited it.
    """
    told: list[str] = []
    handler, printed = _Records(told), io.StringIO()
    logging.getLogger().addHandler(handler)
    try:
        with (
            warnings.catch_warnings(record=True) as warned,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            warnings.simplefilter("always")
            yield told
    finally:
        logging.getLogger().removeHandler(handler)
    ours = (
        one
        for one in warned
        if "torch" not in str(one.filename) and not issubclass(one.category, DeprecationWarning)
    )
    told += [f"{one.category.__name__}: {one.message}" for one in ours]
    told += printed.getvalue().splitlines()
