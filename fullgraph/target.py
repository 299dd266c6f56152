"""Loads the model and inputs that `FILE.py:NAME` or `pkg.mod:NAME` names."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.sources import Owner, owner_of
from fullgraph.target_spec import (
    InputSpec,
    TargetSpec,
    module_missing,
    name_missing,
    parse_target,
)

CONVENTION = (
    "Give shapes, such as --input 4x3x32x32, or put inputs in the file. Inputs are read from "
    "{name}_inputs, else from inputs, else from a build() that returns (model, inputs): a tensor, "
    "a tuple of positional arguments, a dict of keyword arguments, or a function that makes one."
)
_FACTORY = re.compile(r"(build|make|create|get|load|new)(_|$)")


@dataclass(frozen=True)
class LoadedTarget:
    """A model with the inputs of its calls, as loaded from a file or module."""

    name: str
    model: object
    inputs: object
    calls: tuple[object, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `bisect` that a minifier script sets: "loss", "backend", "dynamic", …"""
    in_force: Callable[[], AbstractContextManager[None]] = nullcontext
    """Returns a context manager that applies the settings and modes that the file asks for."""
    notes: tuple[str, ...] = ()
    """Sentences to show to the user."""


def load_target(
    spec: str | TargetSpec, *, train: bool = False, inputs: Sequence[InputSpec] = ()
) -> LoadedTarget:
    """Return the model and the inputs that `spec` names; `train` sets a module's train mode.

    `FILE.py:NAME` and `pkg.mod:NAME` name an nn.Module, a module class whose constructor needs no
    arguments, a function, or a factory without arguments that returns a module or (module,
    inputs). The default NAME is the file's `build()`, its `model` or its only module. `inputs`, if
    given, replaces the file's inputs. In the file, `NAME_calls`, else `calls`, holds inputs of
    further calls. A script of PyTorch's own minifier needs no NAME. Raises FullgraphError if the
    target cannot be loaded.
    """
    where = parse_target(spec) if isinstance(spec, str) else spec
    given = tuple(map(_random_tensor, inputs))
    target = _load(where, given)
    if train and hasattr(target.model, "train"):
        target.model.train()
    return target


def _load(spec: TargetSpec, given: tuple[object, ...]) -> LoadedTarget:
    """Load a file or module, and return the model that `spec` names.

    `given` are the inputs from `--input`; () if there are none.
    """
    where, name = spec.where, spec.name
    if not name and spec.is_file:
        from fullgraph.minifier.repro import pytorch_scripts

        script = pytorch_scripts.load(where)
        if script is not None:
            return LoadedTarget(
                where,
                script.module,
                given or script.inputs,
                options=script.options,
                in_force=script.in_force,
                notes=script.notes,
            )
    module = _import(spec)
    name = name or _find_only_name(module, where)
    if not hasattr(module, name):
        raise name_missing(where, name, _defined_names(module))
    found = getattr(module, name)
    full_name = f"{where}:{name}"
    if name == "build" or not hasattr(module, f"{name}_inputs"):
        made = _call_factory(found, full_name)
        if made is not None:
            model, inputs, calls = made
            if inputs is None:
                inputs = given or _find_inputs(module, name, where)
            elif given:
                inputs, calls = given, ()
            return LoadedTarget(full_name, model, inputs, calls or getattr(module, "calls", ()))
    if given:
        return LoadedTarget(full_name, _instantiate(found, full_name), given)
    inputs = _find_inputs(module, name, where)
    calls = getattr(module, f"{name}_calls", getattr(module, "calls", ()))
    return LoadedTarget(full_name, _instantiate(found, full_name), inputs, tuple(calls))


def _import(spec: TargetSpec) -> ModuleType:
    """Import the file or module of a target."""
    if spec.is_file:
        return _import_file(Path(spec.where))
    where = spec.where
    sys.path.insert(0, "")  # as `python -m` does
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is not None and (where + ".").startswith(error.name + "."):
            raise module_missing(error.name, where) from None
        raise _import_error(where, error) from error
    except (Exception, SystemExit) as error:
        raise _import_error(where, error) from error


def _import_file(path: Path) -> ModuleType:
    """Import a Python file as a module of its own name."""
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))  # as `python FILE.py` does
    known = sys.modules.get(name)
    if known is None or getattr(known, "__file__", None) == module.__file__:
        sys.modules[name] = module  # a file that is loaded again is the module of its name
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _import_error(str(path), error) from error
    return module


def _import_error(where: str, error: BaseException) -> FullgraphError:
    """Return the FullgraphError for a file that raised `error` while it was imported."""
    if isinstance(error, SystemExit):
        return FullgraphError(
            f"{where} exits while it is imported{_place_of(error)}: guard what only a script does "
            "with `if __name__ == '__main__':`."
        )
    what = str(error).strip().partition("\n")[0]
    return FullgraphError(
        f"{where} cannot be imported: {type(error).__name__}: {what}{_place_of(error)}."
    )


def _place_of(error: BaseException) -> str:
    """Return " at FILE:LINE" for an exception's innermost line of user code; "" if unknown."""
    if isinstance(error, SyntaxError):
        return f" at {error.filename}:{error.lineno}"
    steps = [
        step
        for step in traceback.extract_tb(error.__traceback__)
        if "<frozen" not in step.filename and step.filename != __file__
    ]
    own = [step for step in steps if owner_of(step.filename) is Owner.USER]
    found = own or steps
    return f" at {found[-1].filename}:{found[-1].lineno}" if found else ""


def _find_only_name(module: ModuleType, where: str) -> str:
    """Return the name to use by default: "build", "model", or the only model in the module.

    Raises FullgraphError if the module has none of these, or several models.
    """
    for name in ("build", "model"):
        if hasattr(module, name):
            return name
    named = vars(module)
    own = [name for name in named if f"{name}_inputs" in named or _is_own_module(module, name)]
    if len(own) == 1:
        return own[0]
    if own:
        listed = ", ".join(own[:8]) + (f" and {len(own) - 8} more" if len(own) > 8 else "")
        what = f"several modules ({listed})"
    else:
        what = "no module"
    raise FullgraphError(
        f"{where} has {what}: say which with {where}:NAME, or write a build() that returns "
        "(model, inputs)."
    )


def _is_own_module(module: ModuleType, name: str) -> bool:
    """Return whether `name` is an nn.Module, or a subclass of it that this file defines."""
    import torch

    value = getattr(module, name)
    if inspect.isclass(value):
        return issubclass(value, torch.nn.Module) and value.__module__ == module.__name__
    return isinstance(value, torch.nn.Module)


def _call_factory(found: object, name: str) -> tuple[object, Any, tuple[object, ...]] | None:
    """Call a factory; return (model, inputs, inputs of further calls). None if it is no factory.

    A factory is a function without required parameters that returns a module, (module, inputs) or
    (module, inputs, calls), and that has a name like "build" or no parameters at all. If it returns
    only a module, `inputs` is None.
    """
    import torch

    short = name.rpartition(":")[2]
    named = _FACTORY.match(short) is not None
    if not inspect.isfunction(found) or (not named and inspect.signature(found).parameters):
        return None
    needed = _required_parameters(found)
    if needed:
        if short == "build" or short.startswith("build_"):
            raise FullgraphError(
                f"{name} needs {', '.join(needed)}, and is called without arguments: give them "
                "defaults."
            )
        return None
    try:
        result = found()
    except (Exception, SystemExit) as error:
        if not named:
            return None
        what = str(error).partition("\n")[0]
        raise FullgraphError(
            f"{name} raises {type(error).__name__}: {what}{_place_of(error)}: call it by hand and "
            "fix it first."
        ) from error
    match result:
        case torch.nn.Module():
            return result, None, ()
        case (model, inputs) if callable(model):
            return model, inputs, ()
        case (model, inputs, list() | tuple() as calls) if callable(model):
            return model, inputs, tuple(calls)
    if not named:
        return None
    returned = type(result).__name__
    if isinstance(result, tuple) and len(result) > 2:
        returned = f"a tuple of {len(result)}: put several arguments of one call in a tuple"
    raise FullgraphError(
        f"{name} must return a module or (model, inputs), and returned {returned}."
    )


def _find_inputs(module: ModuleType, name: str, where: str) -> object:
    """Return the module's `NAME_inputs`, or its `inputs`, or the inputs that `build()` returns.

    Raises FullgraphError if it has none of these.
    """
    for candidate in (f"{name}_inputs", "inputs"):
        if hasattr(module, candidate):
            value = getattr(module, candidate)
            return value() if inspect.isfunction(value) else value
    build = getattr(module, "build", None)
    if inspect.isfunction(build):
        made = _call_factory(build, f"{where}:build")
        if made is not None and made[1] is not None:
            return made[1]
    raise FullgraphError(
        f"{where} says nothing about the inputs of {name}. {CONVENTION.format(name=name)}"
    )


def _instantiate(found: object, name: str) -> object:
    """Return an instance of `found` if it is a class, made without arguments; else `found`."""
    if not inspect.isclass(found):
        return found
    needed = _required_parameters(found)
    if needed:
        raise FullgraphError(
            f"{name} is a class that needs {', '.join(needed)}: make an instance in the file, or "
            "write a function make_model() that returns one, and name that."
        )
    try:
        return found()
    except (Exception, SystemExit) as error:
        what = str(error).partition("\n")[0]
        raise FullgraphError(
            f"{name}() raises {type(error).__name__}: {what}{_place_of(error)}: make an instance "
            "in the file, and name that."
        ) from error


def _required_parameters(function: Any) -> list[str]:
    """Return the names of the parameters without defaults."""
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a class of C
        return []
    return [p.name for p in parameters if p.default is p.empty and p.kind in kinds]


def _defined_names(module: ModuleType) -> list[str]:
    """Return the public names that a module defines, without those that it imports."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def _random_tensor(spec: InputSpec) -> object:
    """Return a random tensor, the same for each call with `spec`; integers are 0 or 1."""
    import torch

    dtype = getattr(torch, spec.dtype)
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(spec.shape, generator=generator).to(dtype)
    return torch.randint(0, 2, spec.shape, generator=generator).to(dtype)
