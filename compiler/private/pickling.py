"""What a process hands to one that was not forked of it, as bytes: programs, graphs, settings."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import operator
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import cloudpickle
import torch
from torch._library.custom_ops import OPDEFS, CustomOpDef
from torch.fx import Graph, GraphModule, Node
from torch.fx.graph import CodeGen
from torch.fx.node import map_aggregate, map_arg
from torch.nn.utils import parametrize

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.private.operator_names import (
    add_triton_constants,
    add_triton_kernel,
    triton_constants,
    triton_function,
    triton_kernel,
)
from fullgraph.compiler.private.tensors import compute_from_leaf, zero_tensor_like

_PROTOCOL = 5


def serialize(thing: object) -> bytes:
    """`thing` for `unpacked` of another process with the same packages and `sys.path`.

    Tensors keep their devices, strides, common memory and place in autograd; functions and classes
    that the other process could not import go along as they are. Raises FullgraphError for what
    cannot be handed on.
    """
    data = io.BytesIO()
    try:
        with _by_value():
            torch.save(thing, data, pickle_module=_Pickling, pickle_protocol=_PROTOCOL)
    except Exception as error:
        said = str(error).partition("\n")[0]
        raise FullgraphError(
            f"This cannot be handed to another process: {type(error).__name__}: {said}"
        ) from error
    return data.getvalue()


def deserialize(data: bytes) -> Any:
    """What `packed` was given. Raises what the modules raise that define it."""
    return torch.load(io.BytesIO(data), weights_only=False)


class _Pickler(cloudpickle.Pickler):
    """What pickle does not know of torch."""

    def _function_getnewargs(self, function: types.FunctionType) -> Any:
        """A function that goes along as it is finds its globals in a module of their name: Dynamo
        looks them up there."""
        own = function.__globals__
        if isinstance(own.get("__name__"), str):
            self.globals_ref.setdefault(id(own), _Globals(own))
        return super()._function_getnewargs(function)

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
            return _operator, (str(thing), *self._origin(str(thing)))
        if isinstance(thing, CustomOpDef):
            return _custom, (thing._qualname, _recipe(thing))
        if isinstance(thing, torch._ops.HigherOrderOperator):
            return _higher_order, (type(thing).__module__, thing.name())
        if isinstance(thing, torch.memory_format):
            return getattr, (torch, str(thing).removeprefix("torch."))
        if isinstance(thing, GraphModule):
            return _module, _parts(thing)
        if isinstance(thing, torch.Tensor):
            return _tensor(thing)
        if isinstance(thing, torch.nn.Module) and parametrize.is_parametrized(thing):
            return _with_parametrizations, (
                parametrize.type_before_parametrizations(thing),
                vars(thing),
            )
        if isinstance(thing, types.ModuleType) and _importable(thing):
            return importlib.import_module, (thing.__name__,)  # also one of a class of its own
        function = triton_function(thing)
        if function is not None:
            return _kernel(thing, function)
        return super().reducer_override(thing)

    def _origin(self, name: str) -> tuple[tuple[str, ...], _Recipe | None]:
        """Modules that may register an operator that is not torch's own; or how it is made."""
        space, short = name.split(".")[:2]
        if space in ("aten", "prims"):
            return (), None
        made = OPDEFS.get(f"{space}::{short}")
        return (self._strangers, None) if made is None else ((), _recipe(made))

    @functools.cached_property
    def _strangers(self) -> tuple[str, ...]:
        """Modules that are neither Python's nor torch's, those first that are nobody's package."""
        known = sys.stdlib_module_names | {"torch", "numpy", "fullgraph"}
        names = [
            module.__name__
            for module in _loaded()
            if module.__name__.partition(".")[0] not in known and _importable(module)
        ]
        return tuple(sorted(names, key=lambda name: "site-packages" in _file(name)))


class _Pickling:
    """The module that `torch.save` pickles with."""

    Pickler = _Pickler


def _operator(name: str, modules: tuple[str, ...], recipe: _Recipe | None) -> Any:
    if recipe is not None:
        _custom("::".join(name.split(".")[:2]), recipe)
    for module in (*modules, ""):
        with contextlib.suppress(AttributeError):
            return operator.attrgetter(name)(torch.ops)
        with contextlib.suppress(Exception):  # one of them registers it
            importlib.import_module(module)
    raise RuntimeError(f"the operator {name} is registered by no module that can be imported")


@dataclass(frozen=True)
class _Recipe:
    """How a custom operator is made."""

    schema: str
    body: Callable[..., Any]
    kernels: Mapping[str, Callable[..., Any]]
    """By device, where that has one of its own."""
    fake: Callable[..., Any] | None
    setup_context: Callable[..., Any] | None
    backward: Callable[..., Any] | None


def _recipe(made: CustomOpDef) -> _Recipe:
    kernels = {device: body for device, body in made._backend_fns.items() if device is not None}
    return _Recipe(
        *(made._schema, made._init_fn, kernels),
        *(made._abstract_fn, made._setup_context_fn, made._backward_fn),
    )


_kept: list[CustomOpDef] = []
"""Nothing else keeps them alive."""


def _custom(name: str, recipe: _Recipe) -> CustomOpDef:
    """A custom operator, registered as it was elsewhere unless it is registered here."""
    if name in OPDEFS:
        return OPDEFS[name]
    made = torch.library.custom_op(name, recipe.body, mutates_args=(), schema=recipe.schema)
    for device, body in recipe.kernels.items():
        made.register_kernel(device)(body)
    if recipe.fake is not None:
        made.register_fake(recipe.fake)
    if recipe.backward is not None:
        made.register_autograd(recipe.backward, setup_context=recipe.setup_context)
    _kept.append(made)
    return made


def _file(name: str) -> str:
    return getattr(sys.modules[name], "__file__", None) or ""


def _higher_order(module: str, name: str) -> Any:
    importlib.import_module(module)  # which makes it known
    return getattr(torch.ops.higher_order, name)


# --- tensors ---


def _tensor(tensor: torch.Tensor) -> Any:
    if tensor._is_zerotensor():
        return _zeros, (tuple(tensor.shape), tensor.dtype, tensor.device)
    if tensor.layout is torch._mkldnn:  # type: ignore[attr-defined]
        return torch.Tensor.to_mkldnn, (tensor.detach().to_dense(),)
    if tensor.requires_grad and not tensor.is_leaf:
        return _with_history, (tensor.detach(),)
    if tensor.is_inference():
        made, arguments, *_ = tensor.__reduce_ex__(_PROTOCOL)
        return _in_inference, (made, arguments)
    after = getattr(tensor, "_post_accumulate_grad_hooks", None)
    if tensor.is_leaf and (tensor._backward_hooks or after or tensor.grad is not None):
        made, arguments, *_ = tensor.__reduce_ex__(_PROTOCOL)
        if made is torch._utils._rebuild_parameter:
            arguments = (*arguments[:2], OrderedDict())
        elif made is torch._utils._rebuild_tensor_v2:
            arguments = (*arguments[:5], OrderedDict(), *arguments[6:])
        before = tuple((tensor._backward_hooks or {}).values())
        return _leaf, (made, arguments, tensor.grad, before, tuple((after or {}).values()))
    return NotImplemented


def _leaf(
    made: Callable[..., torch.Tensor],
    arguments: tuple[Any, ...],
    gradient: torch.Tensor | None,
    before: tuple[Callable[..., Any], ...],
    after: tuple[Callable[..., Any], ...],
) -> torch.Tensor:
    """A leaf with its gradient, and with the hooks that are called before and after it arrives."""
    tensor = made(*arguments)
    tensor.grad = gradient
    for hook in before:
        tensor.register_hook(hook)
    for hook in after:
        tensor.register_post_accumulate_grad_hook(hook)
    return tensor


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return zero_tensor_like(torch.empty((), dtype=dtype, device=device).expand(shape))


def _with_history(tensor: torch.Tensor) -> torch.Tensor:
    return compute_from_leaf(tensor)[0]


def _in_inference(made: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    with torch.inference_mode():
        return made(*arguments)


# --- graphs ---


class _Used(str):
    """The name of a node, where another uses it."""


_NUMBERS = {"kernel_idx": triton_kernel, "constant_args_idx": triton_constants}
"""Arguments that are numbers of things which only this process knows."""
_NUMBERED = {"kernel_idx": add_triton_kernel, "constant_args_idx": add_triton_constants}


def _parts(module: GraphModule) -> tuple[Any, ...]:
    """A graph module by its nodes, since its own way to be pickled traces its code anew."""
    nodes = module.graph.nodes
    paths = {str(node.target) for node in nodes if node.op in ("get_attr", "call_module")}
    heads = {path.partition(".")[0] for path in paths}
    codegen = module.graph._codegen
    hooks = [name for name in vars(module) if name.startswith(("_forward_", "_backward_"))]
    return (
        {name: getattr(module, name) for name in sorted(heads)},
        [_line(node) for node in nodes],
        None if type(codegen) is CodeGen else codegen,
        {name: vars(module)[name] for name in ("training", *hooks)},
    )


def _line(node: Node) -> tuple[Any, ...]:
    args, kwargs = map_arg((node.args, dict(node.kwargs)), lambda used: _Used(used.name))
    known = {
        name: look(cast(int, node.kwargs[name]))
        for name, look in _NUMBERS.items()
        if isinstance(node.target, torch._ops.HigherOrderOperator) and name in node.kwargs
    }
    custom = node.meta.get("custom")
    return node.name, node.op, node.target, args, dict(kwargs), node.type, known, custom


def _module(
    attributes: dict[str, Any], lines: list[tuple[Any, ...]], codegen: Any, state: dict[str, Any]
) -> GraphModule:
    root = torch.nn.Module()
    for name, value in attributes.items():
        setattr(root, name, value)
    graph = Graph()
    made: dict[str, Node] = {}
    for name, op, target, args, kwargs, kind, known, custom in lines:
        args, kwargs = map_aggregate(
            (args, kwargs), lambda thing: made[thing] if isinstance(thing, _Used) else thing
        )
        kwargs = {**kwargs, **{key: _NUMBERED[key](thing) for key, thing in known.items()}}
        made[name] = graph.create_node(op, target, args, kwargs, name, kind)
        if custom is not None:
            made[name].meta["custom"] = custom
    if codegen is not None:
        graph.set_codegen(codegen)
    module = GraphModule(root, graph)
    vars(module).update(state)
    return module


def _with_parametrizations(kind: type[torch.nn.Module], state: dict[str, Any]) -> torch.nn.Module:
    """A module to which torch gave a class of its own, as weight_norm and its like do."""
    module = kind.__new__(kind)
    vars(module).update(state)
    parametrize._inject_new_class(module)
    for name in state["_modules"]["parametrizations"]:
        parametrize._inject_property(module, name)
    return module


# --- functions ---


class _Globals(dict[str, Any]):
    """What stands for the globals of a function: those of a module of that name."""

    def __init__(self, own: Mapping[str, Any]) -> None:
        super().__init__()
        self.told = own["__name__"], own.get("__file__")

    def __reduce__(self) -> Any:
        return _globals, self.told


def _globals(name: str, file: str | None) -> dict[str, Any]:
    with contextlib.suppress(Exception):  # there is no such module, or none that can be imported
        return vars(importlib.import_module(name))
    module = sys.modules[name] = types.ModuleType(name)
    module.__file__ = file
    return vars(module)


def _kernel(thing: Any, function: Callable[..., Any]) -> Any:
    """A Triton kernel by its name, or made again of its function."""
    home = sys.modules.get(function.__module__)
    with contextlib.suppress(AttributeError):
        if operator.attrgetter(function.__qualname__)(home) is thing and _importable(home):
            return _named, (function.__module__, function.__qualname__)
    if thing.fn is function:
        return type(thing), (function,)
    return NotImplemented


def _named(module: str, name: str) -> Any:
    return operator.attrgetter(name)(importlib.import_module(module))


@contextlib.contextmanager
def _by_value() -> Iterator[None]:
    """Meanwhile the functions and classes of modules that another process could not import are
    pickled as they are."""
    known = cloudpickle.list_registry_pickle_by_value()
    strays = [
        module for module in _loaded() if module.__name__ not in known and not _importable(module)
    ]
    for module in strays:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in strays:
            cloudpickle.unregister_pickle_by_value(module)


def _loaded() -> list[types.ModuleType]:
    """The modules of this process, under their own names; not the one that was started."""
    return [
        module
        for name, module in list(sys.modules.items())
        if isinstance(module, types.ModuleType) and module.__name__ == name != "__main__"
    ]


def _importable(module: types.ModuleType | None) -> bool:
    """Whether another process finds a module."""
    if module is None or module.__name__ == "__main__":
        return False
    top = module.__name__.partition(".")[0]
    return top in sys.stdlib_module_names or _is_found(top)


@functools.cache
def _is_found(name: str) -> bool:
    for finder in sys.meta_path:
        with contextlib.suppress(Exception):  # somebody's own
            if finder.find_spec(name, None) is not None:
                return True
    return False
