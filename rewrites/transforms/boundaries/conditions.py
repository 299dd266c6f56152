"""Conditions under which compiled code calls an operator, and not the function itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import find_all
from fullgraph.rewrites.source import Document
from fullgraph.rewrites.transforms.boundaries.arguments import NO_GRAD, OperatorArgument
from fullgraph.rewrites.transforms.outline import parameters_of

_KINDS = {one: {one} for one in ("bool", "float", "int", "str")}
_KINDS["torch.types.Number"] = {"float", "int"}
"""Types in the schema of an operator, with the Python types that they stand for."""
_OPTIONAL = frozenset({"None", "Optional", "Union", "typing"})
"""Names in an annotation that are no types, or that of None."""


def conditions_of(
    document: Document,
    helper: cst.FunctionDef,
    arguments: Sequence[OperatorArgument],
    never_none: Sequence[str],
    ranks: Mapping[str, int],
    dtypes: Mapping[str, str],
    *,
    floating: bool,
) -> list[str]:
    """Return the conditions under which an operator does what `helper` does, as source.

    `helper` is the function that the operator's code is from. The operator takes the types of its
    schema alone, its fake kernel relies on the `ranks` and `dtypes` of tensors, and no gradient
    flows through it, which matters if a result is `floating`. Arguments in `never_none` must not be
    None. Left out is what the source guarantees: an annotation, or the only value of an attribute.
    """
    torch = document.torch
    parameters = {one.name.value: one for one in parameters_of(helper)}
    no_grad = any(
        m.matches(one.decorator, NO_GRAD | m.Call(func=NO_GRAD)) for one in helper.decorators
    )
    tests: list[str] = []
    for one in arguments:
        name = one.code
        types = _types_to_ask_for(one, parameters.get(name, one.definition), torch)
        if types:
            kinds = types[0] if len(types) == 1 else f"({', '.join(types)})"
            tests.append(f"isinstance({name}, {kinds})")
        elif one.name in never_none:
            tests.append(f"{name} is not None")
        if one.name in ranks:
            tests.append(f"{name}.dim() == {ranks[one.name]}")
        if one.name in dtypes:
            tests.append(f"{name}.dtype == {torch}.{dtypes[one.name]}")
        is_float = one.annotation == "torch.Tensor" and (one.seen is None or one.is_floating)
        if floating and not no_grad and is_float and not one.is_detached:
            tests.append(f"not {name}.requires_grad")
    return tests


def _types_to_ask_for(
    argument: OperatorArgument, parameter: cst.CSTNode | None, torch: str
) -> list[str]:
    """Return the types to ask an argument for; [] if the source says enough.

    `parameter` is the parameter whose value it has, or another definition.
    """
    if not isinstance(parameter, cst.Param):
        seen = set(argument.seen.types) if argument.seen is not None else set()
        return [] if argument.is_typed else sorted(seen - {"NoneType"})
    annotation = parameter.annotation
    names = {
        one.value
        for one in find_all(annotation or cst.Pass(), m.Name())
        if isinstance(one, cst.Name)
    } - _OPTIONAL
    if argument.annotation == "torch.Tensor":
        if annotation is None:
            is_number = not m.matches(parameter.default or cst.Name("None"), m.Name("None"))
        else:
            is_number = not all(one == torch or one.endswith("Tensor") for one in names)
        return [f"{torch}.Tensor"] if is_number else []
    kinds = _KINDS.get(argument.annotation, set())
    accepted = {*kinds, "int"} if "float" in kinds else kinds
    if not kinds or (names and names <= accepted):
        return []
    seen = set(argument.seen.types) - {"NoneType"} if argument.seen is not None else set()
    return sorted(kinds | seen)
