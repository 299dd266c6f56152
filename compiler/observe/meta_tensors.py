"""Facts of an `Expression` (`compiler.facts`), computed on meta tensors."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import torch

from fullgraph.compiler.facts import Constant, Expression, Term, ValueSummary
from fullgraph.compiler.observe.summaries import SummaryRecorder


class UnknownValue(Exception):
    """Raised if the facts do not determine a value."""


def evaluate_on_meta(term: Term) -> ValueSummary | None:
    """Return the facts of the value of `term`, computed on meta tensors.

    None if they are unknown, or if the value is not a tensor, number, string or None.
    """
    try:
        value = _value_of(term)
    except Exception:  # torch rejects these operands: unknown
        return None
    if isinstance(value, torch.Tensor) or type(value) in (type(None), bool, int, float, str):
        recorder = SummaryRecorder()
        recorder(value)
        return replace(recorder.summary(), count=0)
    return None


def _value_of(term: Term) -> Any:
    """Return a value that has the facts of `term`: a meta tensor, a number, a string, …

    Raises UnknownValue, or what torch raises for the operands.
    """
    match term:
        case ValueSummary():
            return _make_value(term)
        case Constant():
            return _torch_constant(term.name)
        case Expression():
            operands = [_value_of(one) for one in term.operands]
            keywords = {name: _value_of(one) for name, one in term.keywords}
            return _apply(term.operator, operands, keywords)
    return term


def _make_value(seen: ValueSummary) -> object:
    """Return a value with the facts in `seen`: an empty meta tensor, or the recorded literal.

    Raises UnknownValue if the expression had several different values, or another kind of value.
    """
    if seen.is_tensor and len(seen.dtypes) == len(seen.shapes) == 1:
        tensor = seen.tensors[0]
        if tensor.layout == "strided":
            dtype = getattr(torch, tensor.dtype)
            made = torch.empty(tensor.shape, dtype=dtype, device="meta")
            return made.requires_grad_(seen.requires_grad)
    if not seen.tensors and len(seen.values) == 1 and len(seen.types) == 1:
        return seen.values[0]
    raise UnknownValue


def _torch_constant(qualified: str) -> torch.dtype | float:
    """Return the dtype or float that a name such as "torch.pi" means. Raises UnknownValue."""
    value = getattr(torch, qualified.removeprefix("torch."), None)
    if not isinstance(value, torch.dtype | float):
        raise UnknownValue
    return value


def _apply(called: str, operands: list[Any], keywords: dict[str, Any]) -> object:
    """Return the result of the operator `called`, such as "torch.relu", on the operands.

    Tensors that it creates are on the meta device. Random generators stay as they are.
    """
    if called in ("list", "tuple"):
        return operands if called == "list" else tuple(operands)
    if called in ("slice", "ellipsis"):
        return slice(*operands) if called == "slice" else ...
    if called == "getattr":
        return _attribute(*operands)
    module, _, last = called.partition(".")
    if module == "operator":
        return getattr(operator, last)(*operands)
    if called.startswith("torch.Tensor.") and not isinstance(operands[0], torch.Tensor):
        raise UnknownValue
    function: Any = torch
    for part in last.split("."):
        function = getattr(function, part)
    if "device" in keywords:
        keywords["device"] = "meta"
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        return function(*operands, **keywords)


def _attribute(base: object, name: str) -> object:
    """Return an attribute of a tensor, a finfo or an iinfo. Raises UnknownValue for others."""
    if isinstance(base, torch.Tensor) and name == "device":
        return torch.device("meta")
    if isinstance(base, torch.Tensor | torch.finfo | torch.iinfo):
        return getattr(base, name)
    raise UnknownValue
