"""What the functions in torch's graphs are called by people, and what those do that nobody calls.

A graph names its functions by object: `torch._C._nn.gelu` is `torch.nn.functional.gelu`, and
`torch.amp.autocast_mode._enter_autocast` is the first half of a `with`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

_MODULES = (
    "torch",
    "torch.nn.functional",
    "torch.linalg",
    "torch.fft",
    "torch.special",
    "torch.func",
    "torch.sparse",
    "torch.nested",
    "torch.amp",
    "torch.nn.init",
    "torch.nn.attention.flex_attention",
    "torch.utils.checkpoint",
    "torch.autograd",
    "torch.distributed",
)
"""Where a function's name is looked for, first to last."""

_BUILT_IN = frozenset(
    {
        *("aten", "prims", "prim", "higher_order", "quantized", "_quantized", "sparse", "profiler"),
        *("mkldnn", "mkl", "onednn", "inductor", "rngprims", "debugprims", "fsdp", "dtensor"),
        *("c10d", "c10d_functional", "_c10d_functional", "_c10d_functional_autograd", "symm_mem"),
        *("streams", "bucketing"),
    }
)
"""Namespaces of operators that come with torch."""


def public_name(target: object) -> str | None:
    """The dotted path by which a script reaches a function of torch; None for others.

    The shortest public one there is, else the one it says of itself.
    """
    if isinstance(target, torch._ops.OpOverload):
        namespace, name = target._schema.name.split("::")
        return f"torch.ops.{namespace}.{name}.{target._overloadname}"
    if isinstance(target, torch._ops.OpOverloadPacket):
        return "torch.ops." + target._qualified_op_name.replace("::", ".")
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"torch.ops.higher_order.{target.name()}"
    known = _public().get(id(target))
    if known is not None:
        return known
    owner = getattr(target, "__objclass__", None)
    if owner is torch._C.TensorBase or owner is torch.Tensor:
        return f"torch.Tensor.{target.__name__}"  # type: ignore[attr-defined]
    for name in ("__qualname__", "__name__"):  # pybind's functions have no qualified name of use
        path = f"{getattr(target, '__module__', '')}.{getattr(target, name, '')}"
        if path.startswith("torch.") and _at(path) is target:
            return path
    return None


@functools.cache
def _public() -> dict[int, str]:
    """By id, the names of the functions in the public modules."""
    found: dict[int, str] = {}
    for path in _MODULES:
        try:
            module = importlib.import_module(path)
        except ImportError:  # a torch without it
            continue
        for name, thing in vars(module).items():
            if callable(thing) and not name.startswith("_") and not isinstance(thing, type):
                found.setdefault(id(thing), f"{path}.{name}")
    return found


def _at(path: str) -> object:
    thing: Any = torch
    for name in path.split(".")[1:]:
        thing = getattr(thing, name, None)
    return thing


def required_import(path: str) -> str | None:
    """The submodule of torch on the way to `path` that `import torch` alone may not load."""
    head = path.rpartition(".")[0]
    lazy = ("torch.nn.attention.", "torch._functorch.", "torch._higher_order_ops.")
    return head if head.startswith(lazy) and head in sys.modules else None


# --- regions: calls that come in pairs ---


Kind = Literal["grad", "inference", "autocast", "sdpa", "end"]


@dataclass(frozen=True)
class RegionCall:
    """Half of a `with`."""

    kind: Kind
    """ "end" for the call that leaves the region whose beginning is its argument."""


def region_call(target: object) -> RegionCall | None:
    """What half of a `with` a function is; None for any other."""
    name = getattr(target, "__name__", "")
    if not str(getattr(target, "__module__", "")).startswith("torch"):
        return None
    kind = _REGIONS.get(name)
    return None if kind is None else RegionCall(kind)


_REGIONS: dict[str, Kind] = {
    "_set_grad_enabled": "grad",
    "_enter_inference_mode": "inference",
    "_exit_inference_mode": "end",
    "_enter_autocast": "autocast",
    "_exit_autocast": "end",
    "_sdpa_kernel": "sdpa",
}


def is_sdpa_backend(target: object) -> bool:
    """Whether it makes an SDPBackend of its name."""
    return getattr(target, "__name__", "") == "_backend_from_string"


# --- NumPy ---


@dataclass(frozen=True)
class NumpyCall:
    """A call of NumPy's that Dynamo wrapped, so that it takes and gives tensors."""

    kind: Literal["function", "method", "operator", "attribute"]
    name: str
    operator: Callable[..., Any] | None = None


def numpy_call(target: object) -> NumpyCall | None:
    """What of NumPy's a wrapper of Dynamo's stands for; None for anything else."""
    kind = type(target).__name__
    if getattr(target, "__name__", "") == "numpy_attr_wrapper":
        return NumpyCall("attribute", "")
    if kind == "numpy_to_tensor_wrapper":
        return NumpyCall("function", target.f.__name__)  # type: ignore[attr-defined]
    if kind == "numpy_method_wrapper":
        return NumpyCall("method", str(target.method))  # type: ignore[attr-defined]
    if kind == "numpy_operator_wrapper":
        operator = target.op  # type: ignore[attr-defined]
        return NumpyCall("operator", operator.__name__, operator)
    return None


# --- operators that somebody registered ---


def custom_op_name(target: object) -> str | None:
    """ "namespace::name" of an operator that does not come with torch; None for all else."""
    if isinstance(target, torch._ops.OpOverload):
        name = target._schema.name
    elif isinstance(target, torch._ops.OpOverloadPacket):
        name = target._qualified_op_name
    else:
        return None
    return None if name.split("::")[0] in _BUILT_IN else name


def custom_op_functions(name: str) -> tuple[Callable[..., Any], ...]:
    """The Python functions that `torch.library.custom_op` was given for an operator: its body,
    its fake, its setup_context and its backward, those that there are. Empty for any other."""
    try:
        from torch._library.custom_ops import OPDEFS
    except ImportError:
        return ()
    found = OPDEFS.get(name)
    names = ("_init_fn", "_abstract_fn", "_setup_context_fn", "_backward_fn")
    parts = (getattr(found, part, None) for part in names)
    return tuple(inspect.unwrap(part) for part in parts if part is not None)


def is_collective(target: object) -> bool:
    """Whether it talks to a process group."""
    name = public_name(target) or ""
    parts = name.removeprefix("torch.ops.").split(".")
    return parts[0] in ("c10d", "_c10d_functional", "_c10d_functional_autograd") or (
        name.startswith("torch.distributed.") and not name.endswith(("is_initialized", "get_rank"))
    )


def triton_function(thing: object) -> Callable[..., Any] | None:
    """The Python function that a Triton kernel was made of, autotuned or not; None for others."""
    while type(thing).__module__.startswith("triton."):
        thing = getattr(thing, "fn", None)
        if inspect.isfunction(thing):
            return thing
    return None


def triton_kernel(index: int) -> object:
    """The kernel that a graph knows by a number."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    return kernel_side_table.get_kernel(index)


def triton_constants(index: int) -> Mapping[str, Any]:
    """The arguments that are no tensors, which a graph knows by a number."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    return kernel_side_table.get_constant_args(index)


def add_triton_kernel(kernel: Any) -> int:
    """A number by which a graph of this process knows a kernel."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    return kernel_side_table.add_kernel(kernel)


def add_triton_constants(arguments: dict[str, Any]) -> int:
    """The same for arguments that are no tensors."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    return kernel_side_table.add_constant_args(arguments)


def captures_scalars() -> bool:
    """Whether Dynamo captures `Tensor.item()`. If not, one in a graph is a float of the program's,
    which Dynamo made a tensor of."""
    from torch._dynamo import config

    return bool(getattr(config, "capture_scalar_outputs", True))


def is_scalar_assertion(target: object) -> bool:
    """Whether it asserts what `torch._check` was asked for."""
    return (
        isinstance(target, torch._ops.OpOverload) and target._schema.name == "aten::_assert_scalar"
    )


def is_mutating_op(target: object) -> bool:
    """Whether an operator's schema says that it writes to an argument."""
    schema = getattr(target, "_schema", None)
    if isinstance(target, torch._ops.OpOverloadPacket):
        overloads = target.overloads()
        schema = getattr(target, overloads[0])._schema if overloads else None
    return bool(getattr(schema, "is_mutable", False))


def is_random_op(target: object) -> bool:
    """Whether an operator draws random numbers."""
    return isinstance(target, torch._ops.OpOverload) and (
        torch.Tag.nondeterministic_seeded in target.tags
    )


def is_higher_order_op(target: object) -> bool:
    return isinstance(target, torch._ops.HigherOrderOperator)
