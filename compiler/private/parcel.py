"""What a process hands to one that was not forked of it, as bytes: programs, graphs, settings."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import operator
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, cast

import cloudpickle
import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.graph import CodeGen
from torch.fx.node import map_aggregate, map_arg

from fullgraph.compiler.copies import computed
from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.private import naming, tensors

_PROTOCOL = 5


def packed(thing: object) -> bytes:
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


def unpacked(data: bytes) -> Any:
    """What `packed` was given. Raises what the modules raise that define it."""
    return torch.load(io.BytesIO(data), weights_only=False)


class _Pickler(cloudpickle.Pickler):
    """What pickle does not know of torch."""

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
            return _operator, (str(thing),)
        if isinstance(thing, torch._ops.HigherOrderOperator):
            return _higher_order, (type(thing).__module__, thing.name())
        if isinstance(thing, torch.memory_format):
            return getattr, (torch, str(thing).removeprefix("torch."))
        if isinstance(thing, GraphModule):
            return _module, _parts(thing)
        if isinstance(thing, torch.Tensor):
            return _tensor(thing)
        function = naming.triton_function(thing)
        if function is not None:
            return _kernel(thing, function)
        return super().reducer_override(thing)


class _Pickling:
    """The module that `torch.save` pickles with."""

    Pickler = _Pickler


def _operator(name: str) -> Any:
    return operator.attrgetter(name)(torch.ops)


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
    return NotImplemented


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return tensors.zeros_like(torch.empty((), dtype=dtype, device=device).expand(shape))


def _with_history(tensor: torch.Tensor) -> torch.Tensor:
    return computed(tensor)[0]


def _in_inference(made: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    with torch.inference_mode():
        return made(*arguments)


# --- graphs ---


class _Used(str):
    """The name of a node, where another uses it."""


_NUMBERS = {"kernel_idx": naming.triton_kernel, "constant_args_idx": naming.triton_constants}
"""Arguments that are numbers of things which only this process knows."""
_NUMBERED = {"kernel_idx": naming.add_triton_kernel, "constant_args_idx": naming.add_constants}


def _parts(module: GraphModule) -> tuple[Any, ...]:
    """A graph module by its nodes, since its own way to be pickled traces its code anew."""
    nodes = module.graph.nodes
    paths = {str(node.target) for node in nodes if node.op in ("get_attr", "call_module")}
    heads = {path.partition(".")[0] for path in paths}
    codegen = module.graph._codegen
    return (
        {name: getattr(module, name) for name in sorted(heads)},
        [_line(node) for node in nodes],
        None if type(codegen) is CodeGen else codegen,
        module.training,
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
    attributes: dict[str, Any], lines: list[tuple[Any, ...]], codegen: Any, training: bool
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
    module.training = training
    return module


# --- functions ---


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
        module
        for name, module in list(sys.modules.items())
        if isinstance(module, types.ModuleType)
        and module.__name__ == name != "__main__"
        and name not in known
        and not _importable(module)
    ]
    for module in strays:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in strays:
            cloudpickle.unregister_pickle_by_value(module)


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
