"""How the examples of an advice are run: text in, a compiled function's breaks and values out."""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib
import io
import logging
import math
import os
import random
import re
import textwrap
import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from types import FunctionType, GeneratorType
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.autograd import Variable

from fullgraph.compiler.events import Break, Fate, Position
from fullgraph.compiler.recording import record


def inputs() -> dict[str, Any]:
    """Fresh values of the names that the examples use as arguments."""
    torch.manual_seed(0)
    x = torch.rand(3, 4)
    return {
        "x": x,
        "z": torch.rand(3, 4),
        "mask": x > 0.5,
        "few": torch.tensor([True, False, True]),
        "index": torch.tensor(2),
        "labels": torch.tensor([0, 3, 1, 3, 4]),
        "values": torch.rand(3),
        "repeats": torch.tensor([1, 2, 3]),
        "leaf": torch.rand(4, requires_grad=True),
    }


@torch.compiler.disable
def outside(x: torch.Tensor) -> torch.Tensor:
    """A function that Dynamo does not enter."""
    return x * 2


def hooked() -> nn.Module:
    """A module with a full backward hook."""
    module = nn.Linear(4, 4)
    module.register_full_backward_hook(lambda *_: None)
    return module


WORLD: dict[str, Any] = {
    "F": F,
    "Variable": Variable,
    "contextlib": contextlib,
    "copy": copy,
    "dist": dist,
    "hooked": hooked(),
    "importlib": importlib,
    "io": io,
    "log": logging.getLogger("example"),
    "math": math,
    "nn": nn,
    "np": np,
    "os": os,
    "outside": outside,
    "p": 1.0,
    "random": random,
    "rnn": nn.LSTM(4, 4),
    "threading": threading,
    "time": time,
    "torch": torch,
    "uuid": uuid,
    "warnings": warnings,
}
"""The globals of the examples."""


def function(text: str) -> tuple[FunctionType, list[str]]:
    """An example as a function, and the names of its arguments.

    An example that defines `forward` is a module of its own; any other is the body of a function
    that takes the `inputs()` it names and returns `y`.
    """
    namespace = dict(WORLD)
    if not re.search(r"^def forward", text, re.MULTILINE):
        names = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
        arguments = [name for name in inputs() if name in names]
        body = textwrap.indent(text, "    ")
        text = f"def forward({', '.join(arguments)}):\n{body}\n    return y"
    exec(compile(text, "<example>", "exec"), namespace)
    forward = namespace["forward"]
    return forward, list(forward.__code__.co_varnames[: forward.__code__.co_argcount])


def call(run: Any, names: list[str]) -> Any:
    """What `run` gives on fresh inputs and seeds, with gradients of leaves behind it."""
    arguments = {name: value for name, value in inputs().items() if name in names}
    random.seed(0)
    np.random.seed(0)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = run(*[arguments[name] for name in names])
        if isinstance(result, GeneratorType):
            result = list(result)
        if isinstance(result, torch.Tensor) and result.requires_grad and "leaf" in arguments:
            result.sum().backward()
            return result.detach(), arguments["leaf"].grad
    return result


HERE = Position("/home/me/model.py", 3, 4, 3, 15, "forward")


def a_break(gb_type: str = "Attempted to call function marked as skipped", **fields) -> Break:
    """A break as torch tells it, at a line of the user's."""
    frame = fields.pop("frame", HERE)
    stack = fields.pop("stack", (HERE,))
    return Break("0/0", frame, stack, Fate.RESUMED, gb_type, None, gb_type, **fields)


def breaks(text: str, mode: str) -> tuple[Break, ...]:
    """The breaks of an example when it is compiled; under fullgraph the first one."""
    run, names = function(text)
    torch._dynamo.reset()
    with record() as recorder, contextlib.suppress(Exception):
        call(torch.compile(run, backend="eager", fullgraph=mode == "fullgraph"), names)
    return recorder.recording.breaks


def compiled(text: str, mode: str) -> Any:
    """What an example gives when it is compiled; raises what it raises."""
    run, names = function(text)
    torch._dynamo.reset()
    return call(torch.compile(run, backend="eager", fullgraph=mode == "fullgraph"), names)


def eager(text: str) -> Any:
    """What an example gives in eager."""
    run, names = function(text)
    return call(run, names)


def assert_same(one: Any, other: Any) -> None:
    """The same values: numbers and 0-d tensors count as equal."""
    if isinstance(one, list | tuple):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    else:
        left, right = torch.as_tensor(one), torch.as_tensor(other)
        torch.testing.assert_close(left.double(), right.double())


@contextlib.contextmanager
def setting(assignment: str) -> Iterator[None]:
    """`torch._dynamo.config.name = value` for the time of the block."""
    found = re.search(r"torch\._dynamo\.config\.(\w+) = ([^`]+)", assignment)
    assert found is not None
    with torch._dynamo.config.patch(**{found[1]: eval(found[2], {"print": print})}):
        yield
