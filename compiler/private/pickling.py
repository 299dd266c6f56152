"""Serialization of programs, graphs and settings for a process that is not a fork of this one."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import operator
import os
import sys
import threading
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import cloudpickle
import torch
from torch._library.custom_ops import OPDEFS, CustomOpDef
from torch.fx import GraphModule
from torch.nn.utils import parametrize

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.private.operator_names import triton_function
from fullgraph.compiler.private.pickled_graphs import graph_parts, rebuild_graph_module
from fullgraph.compiler.private.tensors import compute_from_leaf, zero_tensor_like

_PROTOCOL = 5
_registering = threading.RLock()
"""Held while modules are registered with cloudpickle, of which there is one registry."""
os.register_at_fork(after_in_child=_registering._at_fork_reinit)  # type: ignore[attr-defined]


def serialize(thing: object) -> bytes:
    """Serialize `thing` for a process with the same packages and `sys.path`.

    Tensors keep their devices, strides, shared memory and place in autograd. Functions and classes
    that the other process cannot import are pickled by value. Raises FullgraphError for what
    cannot be pickled.
    """
    data = io.BytesIO()
    try:
        with _pickle_by_value():
            torch.save(thing, data, pickle_module=_PickleModule, pickle_protocol=_PROTOCOL)
    except Exception as error:
        said = str(error).partition("\n")[0]
        raise FullgraphError(
            f"This cannot be handed to another process: {type(error).__name__}: {said}"
        ) from error
    return data.getvalue()


def deserialize(data: bytes) -> Any:
    """Return the object given to `serialize`. Raises what its modules raise on import."""
    return torch.load(io.BytesIO(data), weights_only=False)


class _Pickler(cloudpickle.Pickler):
    """Pickler for objects of torch that pickle and cloudpickle cannot handle."""

    def _function_getnewargs(self, function: types.FunctionType) -> Any:
        """Make a function pickled by value use its module's globals, where Dynamo reads them."""
        namespace = function.__globals__
        if isinstance(namespace.get("__name__"), str):
            self.globals_ref.setdefault(id(namespace), _Globals(namespace))
        return super()._function_getnewargs(function)

    def reducer_override(self, thing: object) -> object:
        """Reduce objects that pickle cannot: operators, graphs, kernels, tensors with hooks."""
        if isinstance(thing, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
            return _rebuild_operator, (str(thing), *self._origin(str(thing)))
        if isinstance(thing, CustomOpDef):
            return _rebuild_custom_op, (thing._qualname, _custom_op_definition(thing))
        if isinstance(thing, torch._ops.HigherOrderOperator):
            return _rebuild_higher_order_op, (type(thing).__module__, thing.name())
        if isinstance(thing, torch.memory_format):
            return getattr, (torch, str(thing).removeprefix("torch."))
        if isinstance(thing, GraphModule):
            return rebuild_graph_module, graph_parts(thing)
        if isinstance(thing, torch.Tensor):
            return _reduce_tensor(thing)
        if isinstance(thing, torch.nn.Module) and parametrize.is_parametrized(thing):
            return _rebuild_parametrized, (
                parametrize.type_before_parametrizations(thing),
                vars(thing),
            )
        if isinstance(thing, types.ModuleType) and _importable(thing):
            return importlib.import_module, (thing.__name__,)  # a subclass of ModuleType included
        if isinstance(thing, types.CodeType):  # cloudpickle 3.1.3 drops the file's name
            return _rebuild_code, (self.dispatch_table[types.CodeType](thing)[1], thing.co_filename)
        function = triton_function(thing)
        if function is not None:
            return _reduce_kernel(thing, function)
        return super().reducer_override(thing)

    def _origin(self, name: str) -> tuple[tuple[str, ...], _CustomOpDefinition | None]:
        """Return the modules that may register an operator, and the definition of a custom one.

        The modules are () if none is needed; the definition is None if it is not known.
        """
        space, short = name.split(".")[:2]
        if space in ("aten", "prims"):
            return (), None
        custom_op = OPDEFS.get(f"{space}::{short}")
        if custom_op is None:
            return self._third_party_modules, None
        return (), _custom_op_definition(custom_op)

    @functools.cached_property
    def _third_party_modules(self) -> tuple[str, ...]:
        """Importable modules that are neither Python's nor torch's, installed packages last."""
        known = sys.stdlib_module_names | {"torch", "numpy", "fullgraph"}
        names = [
            module.__name__
            for module in _loaded_modules()
            if module.__name__.partition(".")[0] not in known and _importable(module)
        ]
        return tuple(sorted(names, key=lambda name: "site-packages" in _file_of(name)))


class _PickleModule:
    """Argument `pickle_module` of `torch.save`."""

    Pickler = _Pickler


def _rebuild_operator(
    name: str, modules: tuple[str, ...], definition: _CustomOpDefinition | None
) -> object:
    """Return the operator `name`, such as "aten.add.Tensor"; register it if it is missing here.

    It is registered from `definition`, or, if that is None, by importing one of `modules`.
    """
    if definition is not None:
        _rebuild_custom_op("::".join(name.split(".")[:2]), definition)
    for module in (*modules, ""):
        with contextlib.suppress(AttributeError):
            return operator.attrgetter(name)(torch.ops)
        with contextlib.suppress(Exception):  # one of the modules registers it
            importlib.import_module(module)
    raise RuntimeError(f"the operator {name} is registered by no module that can be imported")


@dataclass(frozen=True)
class _CustomOpDefinition:
    """Schema and functions of an operator of `torch.library.custom_op`."""

    schema: str
    body: Callable[..., object]
    kernels: Mapping[str, Callable[..., object]]
    """Kernels by device type."""
    fake: Callable[..., object] | None
    setup_context: Callable[..., object] | None
    backward: Callable[..., object] | None


def _custom_op_definition(op: CustomOpDef) -> _CustomOpDefinition:
    """Return the definition from which `_rebuild_custom_op` can register a custom operator."""
    kernels = {device: body for device, body in op._backend_fns.items() if device is not None}
    return _CustomOpDefinition(
        *(op._schema, op._init_fn, kernels),
        *(op._abstract_fn, op._setup_context_fn, op._backward_fn),
    )


_registered: list[CustomOpDef] = []
"""Operators registered by `_rebuild_custom_op`, to keep them alive."""


def _rebuild_custom_op(name: str, definition: _CustomOpDefinition) -> CustomOpDef:
    """Return the custom operator `name`; register it first if this process does not have it."""
    if name in OPDEFS:
        return OPDEFS[name]
    op = torch.library.custom_op(name, definition.body, mutates_args=(), schema=definition.schema)
    for device, body in definition.kernels.items():
        op.register_kernel(device)(body)
    if definition.fake is not None:
        op.register_fake(definition.fake)
    if definition.backward is not None:
        op.register_autograd(definition.backward, setup_context=definition.setup_context)
    _registered.append(op)
    return op


def _file_of(name: str) -> str:
    return getattr(sys.modules[name], "__file__", None) or ""


def _rebuild_higher_order_op(module: str, name: str) -> object:
    """Import `module`, which registers the higher-order operator `name`; return the operator."""
    importlib.import_module(module)  # registers it
    return getattr(torch.ops.higher_order, name)


# --- tensors ---


def _reduce_tensor(tensor: torch.Tensor) -> object:
    """Return (function, arguments) to rebuild a tensor that torch.save would change or refuse.

    NotImplemented for any other tensor.
    """
    if tensor._is_zerotensor():
        return _rebuild_zeros, (tuple(tensor.shape), tensor.dtype, tensor.device)
    if tensor.layout is torch._mkldnn:  # type: ignore[attr-defined]
        return torch.Tensor.to_mkldnn, (tensor.detach().to_dense(),)
    if tensor.requires_grad and not tensor.is_leaf:
        return _rebuild_non_leaf, (tensor.detach(),)
    if tensor.is_inference():
        rebuild, arguments, *_ = tensor.__reduce_ex__(_PROTOCOL)
        return _rebuild_in_inference, (rebuild, arguments)
    after = getattr(tensor, "_post_accumulate_grad_hooks", None)
    if tensor.is_leaf and (tensor._backward_hooks or after or tensor.grad is not None):
        rebuild, arguments, *_ = tensor.__reduce_ex__(_PROTOCOL)
        if rebuild is torch._utils._rebuild_parameter:
            arguments = (*arguments[:2], OrderedDict())
        elif rebuild is torch._utils._rebuild_tensor_v2:
            arguments = (*arguments[:5], OrderedDict(), *arguments[6:])
        hooks = (tuple((group or {}).values()) for group in (tensor._backward_hooks, after))
        return _rebuild_leaf, (rebuild, arguments, tensor.grad, *hooks)
    return NotImplemented


def _rebuild_leaf(
    rebuild: Callable[..., torch.Tensor],
    arguments: tuple[object, ...],
    gradient: torch.Tensor | None,
    before: tuple[Callable[..., object], ...],
    after: tuple[Callable[..., object], ...],
) -> torch.Tensor:
    """Return the tensor `rebuild(*arguments)`, with its gradient and hooks.

    The hooks in `before` run before a gradient is accumulated, those in `after` run after it.
    """
    tensor = rebuild(*arguments)
    tensor.grad = gradient
    for hook in before:
        tensor.register_hook(hook)
    for hook in after:
        tensor.register_post_accumulate_grad_hook(hook)
    return tensor


def _rebuild_zeros(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Return a ZeroTensor."""
    return zero_tensor_like(torch.empty((), dtype=dtype, device=device).expand(shape))


def _rebuild_non_leaf(tensor: torch.Tensor) -> torch.Tensor:
    return compute_from_leaf(tensor)[0]


def _rebuild_in_inference(rebuild: Callable[..., object], arguments: tuple[object, ...]) -> object:
    """Return the inference tensor `rebuild(*arguments)`, made under inference mode."""
    with torch.inference_mode():
        return rebuild(*arguments)


# --- modules ---


def _rebuild_parametrized(kind: type[torch.nn.Module], state: dict[str, Any]) -> torch.nn.Module:
    """Return a module with parametrizations, such as `weight_norm` adds, from its `__dict__`.

    `kind` is the class of the module without them, `state` the `__dict__`.
    """
    module = kind.__new__(kind)
    vars(module).update(state)
    parametrize._inject_new_class(module)
    for name in state["_modules"]["parametrizations"]:
        parametrize._inject_property(module, name)
    return module


# --- functions ---


class _Globals(dict[str, object]):
    """Stand-in for the globals of a function, pickled as the name and file of their module."""

    def __init__(self, namespace: Mapping[str, object]) -> None:
        super().__init__()
        self.module = namespace["__name__"], namespace.get("__file__")

    def __reduce__(self) -> Any:
        return _rebuild_globals, self.module


def _rebuild_globals(name: str, file: str | None) -> dict[str, object]:
    """Return the globals of a module: import it, or create an empty one if that fails."""
    with contextlib.suppress(Exception):  # no such module, or it cannot be imported
        return vars(importlib.import_module(name))
    module = sys.modules[name] = types.ModuleType(name)
    module.__file__ = file
    return vars(module)


def _rebuild_code(arguments: tuple[Any, ...], file: str) -> types.CodeType:
    return types.CodeType(*arguments).replace(co_filename=file)


def _reduce_kernel(thing: Any, function: Callable[..., object]) -> object:
    """Return (function, arguments) to rebuild a Triton kernel from its name or its `function`.

    NotImplemented if neither gives the same kernel.
    """
    home = sys.modules.get(function.__module__)
    with contextlib.suppress(AttributeError):
        if operator.attrgetter(function.__qualname__)(home) is thing and _importable(home):
            return _import_attribute, (function.__module__, function.__qualname__)
    if thing.fn is function:
        return type(thing), (function,)
    return NotImplemented


def _import_attribute(module: str, name: str) -> object:
    return operator.attrgetter(name)(importlib.import_module(module))


@contextlib.contextmanager
def _pickle_by_value() -> Iterator[None]:
    """Pickle by value the functions and classes of modules that no other process can import."""
    with _registering:
        known = cloudpickle.list_registry_pickle_by_value()
        strays = [
            module
            for module in _loaded_modules()
            if module.__name__ not in known and not _importable(module)
        ]
        for module in strays:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in strays:
                cloudpickle.unregister_pickle_by_value(module)


def _loaded_modules() -> list[types.ModuleType]:
    """Return the modules whose key in `sys.modules` is their own name, without `__main__`."""
    return [
        module
        for name, module in list(sys.modules.items())
        if isinstance(module, types.ModuleType) and module.__name__ == name != "__main__"
    ]


def _importable(module: types.ModuleType | None) -> bool:
    """Whether another process can import `module`; False for None and `__main__`."""
    if module is None or module.__name__ == "__main__":
        return False
    top = module.__name__.partition(".")[0]
    return top in sys.stdlib_module_names or _has_finder(top)


@functools.cache
def _has_finder(name: str) -> bool:
    """Return whether an import hook finds the top-level module `name`."""
    for finder in sys.meta_path:
        with contextlib.suppress(Exception):  # a third-party finder
            if finder.find_spec(name, None) is not None:
                return True
    return False
