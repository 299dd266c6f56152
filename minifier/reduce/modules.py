"""Reducer of module trees: replaces submodules by stubs, before any graph is captured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from fullgraph.compiler.isolation import snapshot
from fullgraph.compiler.private import is_functorch_wrapped, tree_leaves, tree_map
from fullgraph.minifier.extract.stubs import Passing, Recording
from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce.subsets import find_smallest, take_most


class StubKind(StrEnum):
    """What a stub that replaces a submodule returns: its argument, or the recorded output."""

    IDENTITY = "identity"
    """Returns the argument that has the same shape as the output."""
    RECORDED = "recorded output"
    """Returns the outputs that were recorded in an eager run."""


Action = StubKind | int
"""A stub for the module, or how many of its first children a container keeps."""

_CONTAINERS = (nn.ModuleList, nn.Sequential)


@dataclass(frozen=True)
class ModulePlan:
    """Which submodules to replace by stubs, and which containers to shorten, by module path."""

    actions: tuple[tuple[str, Action], ...] = ()

    def with_actions(self, actions: Mapping[str, Action]) -> ModulePlan:
        """Return this plan with `actions` added; an action replaces an earlier one at its path."""
        return ModulePlan(tuple(sorted({**dict(self.actions), **actions}.items())))

    def touches(self, path: str) -> bool:
        """Return whether the module at `path`, or one that contains it, is replaced or dropped."""
        for outer, action in self.actions:
            inside = path.startswith(f"{outer}.")
            if isinstance(action, int):
                rest = path[len(outer) + 1 :].partition(".")[0]
                if inside and rest.isdigit() and int(rest) >= action:
                    return True
            elif inside or path == outer:
                return True
        return False

    def __str__(self) -> str:
        told = (
            f"{path}: {f'first {kind}' if isinstance(kind, int) else kind.value}"
            for path, kind in self.actions
        )
        return "; ".join(told)


@dataclass(frozen=True, eq=False)
class ModuleOutput:
    """What an eager run recorded of one module: its outputs, and an argument that is like them."""

    values: tuple[Any, ...]
    """Output of each call, with copied tensors; () if a torch.func transform wraps one."""
    argument: int | str | None
    """Position or name of an argument that all outputs have the shape of; None if there is none."""
    weight: int
    """Number of torch functions that were called inside the module."""


@dataclass(frozen=True, eq=False)
class ModuleRecording:
    """What an eager run recorded of each module that it called."""

    outputs: Mapping[str, ModuleOutput] = field(default_factory=dict)
    """Outputs by module path."""

    def called_once(self) -> ModuleRecording:
        """Return the recording of the modules that were called once.

        A stub for several calls counts them in a Python integer, which makes Dynamo recompile.
        """
        once = {path: out for path, out in self.outputs.items() if len(out.values) == 1}
        return ModuleRecording(once)


def record_modules(
    module: nn.Module, call: Callable[[], object], paths: Collection[str] | None = None
) -> ModuleRecording:
    """Run `call`, which calls `module`, once, and return the outputs of its submodules.

    `paths` are the submodules to record; None: all. Afterwards the module and the random generators
    are as before. Raises what `call` raises.
    """
    before = snapshot((module,))
    watch = _CallRecorder()
    hooks = []
    try:
        for path, child in module.named_modules():
            if path and (paths is None or path in paths):
                hooks.append(child.register_forward_pre_hook(watch.enter(path)))
                hooks.append(child.register_forward_hook(watch.leave(path), with_kwargs=True))
        with watch.counting():
            call()
    finally:
        for hook in hooks:
            hook.remove()
        before.restore()
    return ModuleRecording(watch.outputs)


def apply_plan(
    module: nn.Module, plan: ModulePlan, recorded: ModuleRecording
) -> Callable[[], None]:
    """Replace and drop submodules of `module`, in place; return a function that undoes it.

    `recorded` has the outputs that stubs return. A path in `plan` is skipped if an outer module was
    replaced. Raises KeyError if a module to replace was not recorded; then nothing is replaced.
    """
    before: list[tuple[nn.Module, dict[str, nn.Module | None]]] = []

    def undo() -> None:
        for holder, children in reversed(before):
            holder._modules.clear()
            holder._modules.update(children)

    try:
        for path, action in plan.actions:
            if not _has_path(module, path):
                continue
            holder, name = _parent_of(module, path)
            if isinstance(action, int):
                holder = module.get_submodule(path)
            before.append((holder, dict(holder._modules)))
            if isinstance(action, int):
                for key in list(holder._modules)[action:]:
                    del holder._modules[key]
            else:
                holder._modules[name] = make_stub(recorded.outputs[path], action)
    except BaseException:
        undo()
        raise
    return undo


def reduce_modules(
    problem: Problem[ModulePlan], module: nn.Module, recorded: ModuleRecording
) -> None:
    """Drop repeated layers of `module`, then replace modules by stubs, outer and large ones first.

    `module` does not change: the result is the plan `problem.current`. `recorded` has what stubs
    return. Raises OutOfBudget.
    """
    for path, child in module.named_modules():
        if isinstance(child, _CONTAINERS) and len(child) > 1 and not problem.current.touches(path):
            find_smallest(
                problem,
                1,
                len(child),
                partial(_keep_first, problem.current, path),
                leap=1,
            )
    depths = {path: path.count(".") for path in recorded.outputs}
    for depth in sorted(set(depths.values())):
        level = [path for path in recorded.outputs if depths[path] == depth]
        for kind in StubKind:
            _replace(problem, recorded, level, kind)


def _keep_first(plan: ModulePlan, path: str, count: int) -> list[ModulePlan]:
    return [plan.with_actions({path: count})]


def _replace(
    problem: Problem[ModulePlan], recorded: ModuleRecording, level: Sequence[str], kind: StubKind
) -> None:
    """Add as many stubs of one kind to the plan `problem.current` as the failure permits.

    `level` has the paths of the modules at one depth of the module tree.
    """
    base = problem.current
    paths = [path for path in level if not base.touches(path)]
    if kind is StubKind.IDENTITY:
        paths = [path for path in paths if recorded.outputs[path].argument is not None]
    else:
        paths = [path for path in paths if recorded.outputs[path].values]
    take_most(
        problem,
        paths,
        lambda chosen: [base.with_actions(dict.fromkeys(chosen, kind))],
        lambda path: 1 + recorded.outputs[path].weight,
    )


def make_stub(output: ModuleOutput, kind: StubKind) -> nn.Module:
    """Return a stub for a module, which returns the outputs or an argument recorded in `output`.

    `kind` says which of the two. Raises KeyError if that was not recorded.
    """
    if kind is StubKind.RECORDED:
        if not output.values:
            raise KeyError("a transform of torch.func made the output")
        return Recording(output.values)
    if output.argument is None:
        raise KeyError("no argument looks like the output")
    return Passing(output.argument)


class _CallRecorder:
    """Recorder of modules' outputs, and of how many torch functions each module calls."""

    def __init__(self) -> None:
        self.outputs: dict[str, ModuleOutput] = {}
        self.functions = 0
        self.begun: list[int] = []

    def enter(self, path: str) -> Callable[..., None]:
        """Return the forward pre-hook of the module at `path`."""

        def hook(module: nn.Module, args: tuple[Any, ...]) -> None:
            self.begun.append(self.functions)

        return hook

    def leave(self, path: str) -> Callable[..., None]:
        """Return the forward hook of the module at `path`."""

        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: Any, value: Any) -> None:
            """Record the output, and an argument of the same shape."""
            weight = self.functions - self.begun.pop()
            given: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
            like = [name for name, each in given if _looks_like(value, each)]
            known = self.outputs.get(path)
            argument = like[0] if like else None
            if known is not None:
                argument = known.argument if known.argument in like else None
                weight += known.weight
            values: tuple[Any, ...] = ()
            transformed = any(map(_is_transformed, tree_leaves(value)))  # it does not live on
            if not transformed and (known is None or known.values):
                values = (*(known.values if known else ()), tree_map(_detached_copy, value))
            self.outputs[path] = ModuleOutput(values, argument, weight)

        return hook

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the torch functions that are called in the block."""
        watch = self

        class Count(TorchFunctionMode):
            """Mode that counts the torch functions that are called."""

            def __torch_function__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                watch.functions += 1
                return func(*args, **(kwargs or {}))

        with Count():
            yield


def _is_transformed(leaf: Any) -> bool:
    """Return whether a value is a tensor that a torch.func transform wraps."""
    return isinstance(leaf, torch.Tensor) and is_functorch_wrapped(leaf)


def _detached_copy(leaf: Any) -> Any:
    """Return a copy of a tensor without its autograd history; a value that is no tensor itself."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return leaf.detach().clone().requires_grad_(leaf.requires_grad)


def _looks_like(value: Any, argument: Any) -> bool:
    """Return whether two values are structures of tensors that are alike: same shape, same dtype.

    False if a value has no tensors, or anything else.
    """
    ones, others = tree_leaves(value), tree_leaves(argument)
    if type(value) is not type(argument) or len(ones) != len(others):
        return False
    return bool(ones) and all(map(_same_kind, ones, others))


def _same_kind(one: Any, other: Any) -> bool:
    """Return whether two values are tensors of the same shape, dtype, device and layout."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    return (one.shape, one.dtype, one.device, one.layout) == (
        other.shape,
        other.dtype,
        other.device,
        other.layout,
    )


def _has_path(module: nn.Module, path: str) -> bool:
    """Return whether `module` has a submodule at `path`; an earlier change may have removed it."""
    try:
        module.get_submodule(path)
    except AttributeError:
        return False
    return True


def _parent_of(module: nn.Module, path: str) -> tuple[nn.Module, str]:
    """Return the module that contains the one at `path`, and the last name in `path`.

    For "encoder.0": (`module.encoder`, "0").
    """
    outer, _, name = path.rpartition(".")
    return module.get_submodule(outer), name
