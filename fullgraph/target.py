"""Loads the model and inputs that `FILE.py:NAME` or `pkg.mod:NAME` names."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from fullgraph.compiler.errors import FullgraphError

CONVENTION = (
    "Inputs are read from {name}_inputs, else from inputs, else from a build() that returns "
    "(model, inputs): a tensor, a tuple of positional arguments, a dict of keyword arguments, "
    "or a function that makes one."
)


@dataclass(frozen=True)
class LoadedTarget:
    """A model, its inputs, and what the file says about compiling it."""

    name: str
    model: object
    inputs: object
    calls: tuple[object, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    """Arguments of `bisect` that the file asks for: "loss", "backend", "dynamic", …"""
    in_force: Callable[[], AbstractContextManager[None]] = nullcontext
    """Applies the settings and modes that the file asks for."""
    notes: tuple[str, ...] = ()
    """Sentences for the user."""


def load_target(spec: str, *, train: bool = False) -> LoadedTarget:
    """Return the model and inputs that `spec` names; `train` puts a module into train mode.

    `FILE.py:NAME` and `pkg.mod:NAME` name an nn.Module, a module class whose constructor needs no
    arguments, a function, or a `build()`. The default NAME is the file's `build()`, its `model` or
    its only module. `NAME_calls`, else `calls`, holds further inputs. A script of PyTorch's own
    minifier needs no NAME. Raises FullgraphError if there is no such program.
    """
    target = _load_target(spec)
    if train and hasattr(target.model, "train"):
        target.model.train()
    return target


def _load_target(spec: str) -> LoadedTarget:
    """Return what `spec` names: FILE.py:NAME, pkg.mod:NAME, or a script of PyTorch's minifier."""
    where, name = _split_spec(spec)
    if not name and Path(where).is_file():
        from fullgraph.minifier.repro import pytorch_scripts

        script = pytorch_scripts.load(where)
        if script is not None:
            return LoadedTarget(
                where,
                script.module,
                script.inputs,
                options=script.options,
                in_force=script.in_force,
                notes=script.notes,
            )
    module = _import_target(where)
    if not name:
        name = _only_name(module, where)
    if not hasattr(module, name):
        raise FullgraphError(f"{where} has no name {name!r}; it has {_own_names(module)}.")
    found = getattr(module, name)
    if name == "build" or (not hasattr(module, f"{name}_inputs") and _is_build(found, name)):
        return _call_build(found, f"{where}:{name}", module)
    inputs = _find_inputs(module, name, where)
    calls = getattr(module, f"{name}_calls", getattr(module, "calls", ()))
    return LoadedTarget(f"{where}:{name}", _make_instance(found, name), inputs, tuple(calls))


def _split_spec(spec: str) -> tuple[str, str]:
    where, colon, name = spec.rpartition(":")
    if not colon or "/" in name or name.endswith(".py"):
        where, name = spec, ""
    if not where:
        raise FullgraphError(f"{spec!r} names no file: write FILE.py:NAME or pkg.mod:NAME.")
    return where, name


def _import_target(where: str) -> ModuleType:
    """Import a file or a module; raise FullgraphError if it cannot be imported."""
    path = Path(where)
    if where.endswith(".py") or path.is_file():
        if not path.is_file():
            raise FullgraphError(f"There is no file {where}: give the path of a Python file.")
        return _import_file(path)
    sys.path.insert(0, "")  # as `python -m` does
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is not None and (where + ".").startswith(error.name + "."):
            hint = f" Did you mean {where}.py?" if Path(f"{where}.py").is_file() else ""
            raise FullgraphError(
                f"There is no module named {error.name!r}: write FILE.py:NAME, or pkg.mod:NAME "
                f"for a module that can be imported here.{hint}"
            ) from None
        raise _describe_import_error(where, error) from error
    except Exception as error:
        raise _describe_import_error(where, error) from error


def _import_file(path: Path) -> ModuleType:
    """Import a Python file under the name of its stem."""
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FullgraphError(f"{path} is no Python file: its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))  # as `python FILE.py` does
    sys.modules.setdefault(name, module)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _describe_import_error(str(path), error) from error
    return module


def _describe_import_error(where: str, error: Exception) -> FullgraphError:
    if isinstance(error, SyntaxError):
        place = f"{error.filename}:{error.lineno}"
    else:
        steps = [
            s for s in traceback.extract_tb(error.__traceback__) if "<frozen" not in s.filename
        ]
        place = f"{steps[-1].filename}:{steps[-1].lineno}" if steps else where
    what = str(error).partition("\n")[0]
    return FullgraphError(
        f"{where} cannot be imported: {type(error).__name__}: {what} at {place}; it must import "
        "without side effects, so guard what only a script does with `if __name__ == '__main__'`."
    )


def _only_name(module: ModuleType, where: str) -> str:
    """Return the name to load where the spec gives none: `build`, `model`, or the only module."""
    for name in ("build", "model"):
        if hasattr(module, name):
            return name
    named = vars(module)
    own = [name for name in named if f"{name}_inputs" in named or _is_own_module(module, name)]
    if len(own) == 1:
        return own[0]
    what = "no module" if not own else f"several modules ({', '.join(own)})"
    raise FullgraphError(
        f"{where} has {what}: say which with {where}:NAME, or write a build() that returns "
        "(model, inputs)."
    )


def _is_own_module(module: ModuleType, name: str) -> bool:
    """Return whether `name` is an nn.Module, or a module class that the file defines."""
    import torch

    value = getattr(module, name)
    if inspect.isclass(value):
        return issubclass(value, torch.nn.Module) and value.__module__ == module.__name__
    return isinstance(value, torch.nn.Module)


def _is_build(found: object, name: str) -> bool:
    """Return whether `found` is a function like `build_resnet` that returns (model, inputs)."""
    return (
        inspect.isfunction(found) and name.startswith("build_") and not _required_parameters(found)
    )


def _call_build(build: Callable[[], object], name: str, module: ModuleType) -> LoadedTarget:
    """Call `build` and check that it returns (model, inputs) or (model, inputs, kwargs)."""
    try:
        result = build()
    except Exception as error:
        raise FullgraphError(
            f"{name} raises {type(error).__name__}: {str(error).partition(chr(10))[0]}; call it "
            "by hand and fix it first."
        ) from error
    if not isinstance(result, tuple) or len(result) not in (2, 3):
        raise FullgraphError(
            f"{name} must return (model, inputs), and returned {type(result).__name__}."
        )
    calls = result[2] if len(result) == 3 else getattr(module, "calls", ())
    return LoadedTarget(name, result[0], result[1], tuple(calls))


def _find_inputs(module: ModuleType, name: str, where: str) -> object:
    """Return the inputs that a file gives for `name`."""
    for candidate in (f"{name}_inputs", "inputs"):
        if hasattr(module, candidate):
            value = getattr(module, candidate)
            return value() if inspect.isfunction(value) else value
    build = getattr(module, "build", None)
    if inspect.isfunction(build):
        return _call_build(build, f"{where}:build", module).inputs
    raise FullgraphError(
        f"{where} says nothing about the inputs of {name}. {CONVENTION.format(name=name)}"
    )


def _make_instance(found: object, name: str) -> object:
    """Return an instance of a class without required arguments; other objects as they are."""
    if not inspect.isclass(found):
        return found
    needed = _required_parameters(found)
    if needed:
        raise FullgraphError(
            f"{name} is a class that needs {', '.join(needed)}: make an instance in the file, "
            "or write a build() that returns (model, inputs)."
        )
    return found()


def _required_parameters(function: Any) -> list[str]:
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind in kinds]


def _own_names(module: ModuleType) -> str:
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return ", ".join(own) or "no functions or classes of its own"
