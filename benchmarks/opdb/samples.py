"""A fixed list of 300 samples of PyTorch's operator database, and the inputs of each.

    python -m benchmarks.opdb.samples        # draws the list again: samples.txt does not change

A draw takes a pair of an operator and a dtype that it supports on the CPU, each pair with the same
chance, and then one of the pair's sample inputs. What eager does not run (`jiterator_unary`) is
drawn again. A sample's name says all three: "nn.functional.pad.constant/float32/3".
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch


def _import_database() -> ModuleType:
    """Return the database, whose import forbids to set flags such as those of cuDNN; allow them."""
    flags = torch.backends.flags_frozen.__globals__
    allowed = flags["__allow_nonbracketed_mutation_flag"]
    from torch.testing._internal import common_methods_invocations

    flags["__allow_nonbracketed_mutation_flag"] = allowed
    return common_methods_invocations


database = _import_database()
COUNT, SEED = 300, 27
DTYPES = ("float32", "float64", "bfloat16", "int64", "bool")
LIST = Path(__file__).with_name("samples.txt")


@dataclass(frozen=True)
class Sample:
    """One sample of an operator: a function and what to call it with."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    has_defined_result: bool
    """Whether eager's result is defined: that of `empty` is not."""


def sample_names() -> list[str]:
    """Return the names of the samples, in the order in which they were drawn."""
    return LIST.read_text().split()


def make_sample(name: str) -> Sample:
    """Return a sample with new tensors; each call makes equal ones."""
    operator, dtype, number = name.rsplit("/", 2)
    info = next(one for one in database.op_db if one.full_name == operator)
    database.wrapper_set_seed = _call  # in the place of one that Dynamo does not trace
    found = _inputs(info, getattr(torch, dtype))[int(number)]
    return Sample(
        name,
        info.get_op(),
        (found.input, *found.args),
        dict(found.kwargs),
        "empty" not in operator,
    )


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _inputs(info: Any, dtype: torch.dtype) -> list[Any]:
    """Return all sample inputs of an operator and a dtype."""
    torch.manual_seed(0)
    random.seed(0)
    has_gradient = info.supports_autograd and dtype in info.supported_backward_dtypes("cpu")
    return list(info.sample_inputs("cpu", dtype, requires_grad=has_gradient))


def draw() -> list[str]:
    """Return the names of newly drawn samples that eager runs."""
    generator = random.Random(SEED)
    pairs = [
        (info, dtype)
        for info in sorted(database.op_db, key=lambda one: one.full_name)
        for dtype in DTYPES
        if getattr(torch, dtype) in info.supported_dtypes("cpu")
    ]
    names = []
    for info, dtype in generator.sample(pairs, len(pairs)):
        count = len(_inputs(info, getattr(torch, dtype)))
        name = f"{info.full_name}/{dtype}/{generator.randrange(count)}" if count else ""
        if name and _runs(make_sample(name)):
            names.append(name)
        if len(names) == COUNT:
            break
    return names


def _runs(sample: Sample) -> bool:
    """Return whether eager runs a sample."""
    try:
        sample.function(*sample.args, **sample.kwargs)
    except Exception:
        return False
    return True


if __name__ == "__main__":
    LIST.write_text("\n".join([*draw(), ""]))
