"""Conversion of live modules and globals to what edited source would make of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from fullgraph.compiler.sources import (
    SourceOverride,
    find_live_functions,
    override_sources,
    read_source,
)


@dataclass(frozen=True)
class NewTensors:
    """Buffers and global tensors of edited source that were numbers in the original."""

    buffers: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """Names of buffers by file and class."""
    variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of global variables by file."""


@contextmanager
def override_program(target: object, texts: Mapping[str, str]) -> Iterator[SourceOverride]:
    """Run edited source code inside the block, with the live modules and globals adapted to it.

    `override_sources` does not run `__init__` and top-level code again. So numbers that the edited
    code would make tensors there become tensors, and at the end of the block numbers again.
    """
    new = find_new_tensors(texts)
    with override_sources(texts) as overlay, ExitStack() as undo:
        for module in _modules_of(target):
            own, buffers = vars(module), module._buffers
            left_out = module._non_persistent_buffers_set
            names = _numbers_of(module, new)
            convert_module(module, new)
            for name in names:
                undo.callback(_restore_number, own, name, module.get_buffer(name))
            if module._buffers is not buffers:
                undo.callback(own.__setitem__, "_buffers", buffers)
                undo.callback(own.__setitem__, "_non_persistent_buffers_set", left_out)
        for file, variables in new.variables.items():
            for space in {id(f.__globals__): f.__globals__ for f in _functions(file)}.values():
                numbers = tuple(name for name in variables if _is_number(space.get(name)))
                convert_globals(space, numbers)
                for name in numbers:
                    undo.callback(_restore_number, space, name, space[name])
        yield overlay


def find_new_tensors(texts: Mapping[str, str]) -> NewTensors:
    """Return the buffers and global tensors of `texts` that the files on disk do not have."""
    buffers, variables = {}, {}
    for file, text in texts.items():
        source = read_source(file)
        if source is None or source.text == text:
            continue
        known, made = _buffers_in(source.tree), _buffers_in(ast.parse(text))
        for name in made:
            buffers[file, name] = tuple(made[name] - known.get(name, set()))
        variables[file] = tuple(_tensors_in(ast.parse(text)) - _tensors_in(source.tree))
    return NewTensors(buffers, variables)


def convert_module(module: torch.nn.Module, new: NewTensors) -> None:
    """Turn the numbers of a module that `new` lists as its buffers into buffers.

    The module gets new dictionaries of buffers, because copies of it may share the old ones.
    """
    names = _numbers_of(module, new)
    if not names:
        return
    own = vars(module)
    tensors = (*module.parameters(), *module.buffers())
    device = tensors[0].device if tensors else None
    made = {name: tensor_of_number(own.pop(name), device) for name in names}
    own["_buffers"] = type(module._buffers)({**module._buffers, **made})
    own["_non_persistent_buffers_set"] = {*module._non_persistent_buffers_set, *names}


def convert_globals(space: dict[str, Any], names: tuple[str, ...]) -> None:
    """Replace the globals `names` that are numbers by 0-d tensors; `space` holds all globals."""
    for name in names:
        if _is_number(space.get(name)):
            space[name] = tensor_of_number(space[name])


def _numbers_of(module: torch.nn.Module, new: NewTensors) -> list[str]:
    """Return the names of a module's numbers that are buffers in `new`."""
    found: dict[str, None] = {}
    for kind in type(module).__mro__:
        code = getattr(vars(kind).get("__init__"), "__code__", None)
        names = new.buffers.get((code.co_filename, kind.__name__), ()) if code else ()
        found |= dict.fromkeys(n for n in names if _is_number(vars(module).get(n)))
    return list(found)


def _modules_of(target: object) -> list[torch.nn.Module]:
    return list(target.modules()) if isinstance(target, torch.nn.Module) else []


def _functions(file: str) -> list[Any]:
    return list(find_live_functions([file])[file])


def _buffers_in(tree: ast.Module) -> dict[str, set[str]]:
    """Return the buffers that each class registers: {"Net": {"count"}}."""
    found: dict[str, set[str]] = {}
    for kind in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for node in ast.walk(kind):
            match node:
                case ast.Call(ast.Attribute(attr="register_buffer"), [ast.Constant(str(name)), *_]):
                    found.setdefault(kind.name, set()).add(name)
    return found


def _tensors_in(tree: ast.Module) -> set[str]:
    """Return the global variables that are assigned a call, such as "X" in `X = torch.zeros(1)`."""
    return {
        node.targets[0].id
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
    }


def _restore_number(space: dict[str, Any], name: str, tensor: torch.Tensor) -> None:
    """Set `space[name]` to the number that `tensor`, a 0-d tensor, holds now."""
    space[name] = tensor.item()


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def tensor_of_number(value: float, device: torch.device | None = None) -> torch.Tensor:
    """Return a number as a 0-d tensor that loses no digits."""
    dtype = torch.float64 if isinstance(value, float) else None
    return torch.tensor(value, dtype=dtype, device=device)
