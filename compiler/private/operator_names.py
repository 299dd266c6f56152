"""Public names and properties of the functions that graphs call.

A graph holds function objects: `torch._C._nn.gelu` is `torch.nn.functional.gelu`, and
`torch.amp.autocast_mode._enter_autocast` is the entry of a `with`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

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
"""Modules searched for a function's public name, in order."""

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
    """Return the dotted path of a function of torch; None for any other object.

    The path is a public one if there is one, else that of the function's own module and name.
    """
    if isinstance(target, torch._ops.OpOverload):
        namespace, name = target._schema.name.split("::")
        return f"torch.ops.{namespace}.{name}.{target._overloadname}"
    if isinstance(target, torch._ops.OpOverloadPacket):
        return "torch.ops." + target._qualified_op_name.replace("::", ".")
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"torch.ops.higher_order.{target.name()}"
    known = _public_names().get(id(target))
    if known is not None:
        return known
    owner = getattr(target, "__objclass__", None)
    if owner is torch._C.TensorBase or owner is torch.Tensor:
        return f"torch.Tensor.{getattr(target, '__name__', '')}"
    for name in ("__qualname__", "__name__"):  # pybind's functions have no qualified name of use
        path = f"{getattr(target, '__module__', '')}.{getattr(target, name, '')}"
        if path.startswith("torch.") and _resolve_path(path) is target:
            return path
    return None


@functools.cache
def _public_names() -> dict[int, str]:
    """Return the public names of the functions in the public modules, by id."""
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


def _resolve_path(path: str) -> object:
    """Return the object at a path such as "torch.nn.functional.relu"; None if there is none."""
    thing: object = torch
    for name in path.split(".")[1:]:
        thing = getattr(thing, name, None)
    return thing


def required_import(path: str) -> str | None:
    """Return the module of `path` if it must be imported; None if `import torch` loads it."""
    head = path.rpartition(".")[0]
    lazy = ("torch.nn.attention.", "torch._functorch.", "torch._higher_order_ops.")
    return head if head.startswith(lazy) and head in sys.modules else None


# --- context regions: an entering call and an exiting call ---


Kind = Literal["grad", "inference", "autocast", "sdpa", "end"]


@dataclass(frozen=True)
class RegionCall:
    """Call in a graph that enters a `with` region, such as `no_grad`, or exits one ("end")."""

    kind: Kind
    """Kind of region, or "end" for a call that exits the region passed as its argument."""


def region_call(target: object) -> RegionCall | None:
    """Return which kind of `with` region a function enters, or "end" if it exits one.

    None for other functions.
    """
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
    """Return whether a function is torch's `_backend_from_string`: "MATH" → `SDPBackend.MATH`."""
    return getattr(target, "__name__", "") == "_backend_from_string"


# --- NumPy ---


@dataclass(frozen=True)
class NumpyCall:
    """NumPy call that Dynamo wrapped to take and return tensors."""

    kind: Literal["function", "method", "operator", "attribute"]
    name: str
    operator: Callable[..., object] | None = None


def numpy_call(target: object) -> NumpyCall | None:
    """Return the NumPy call inside a wrapper of Dynamo's; None for other functions."""
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


# --- custom operators ---


def custom_op_name(target: object) -> str | None:
    """Return "namespace::name" of a custom operator; None for torch's own and other objects."""
    if isinstance(target, torch._ops.OpOverload):
        name = target._schema.name
    elif isinstance(target, torch._ops.OpOverloadPacket):
        name = target._qualified_op_name
    else:
        return None
    return None if name.split("::")[0] in _BUILT_IN else name


def functionalized_operator(node: torch.fx.Node) -> torch._ops.OpOverload | None:
    """Return the operator that a node calls on copies of the arguments that it changes.

    AOTAutograd makes such a node of a custom operator, and it returns the copies, too. None for
    other nodes.
    """
    names = ("auto_functionalized", "auto_functionalized_v2")
    if not is_higher_order_op(node.target) or getattr(node.target, "__name__", "") not in names:
        return None
    return node.args[0] if isinstance(node.args[0], torch._ops.OpOverload) else None


def custom_op_functions(name: str) -> tuple[Callable[..., object], ...]:
    """Return the functions registered for an operator of `torch.library.custom_op`.

    They are its body, fake, setup_context and backward, without those that it lacks. () for any
    other operator.
    """
    try:
        from torch._library.custom_ops import OPDEFS
    except ImportError:
        return ()
    found = OPDEFS.get(name)
    names = ("_init_fn", "_abstract_fn", "_setup_context_fn", "_backward_fn")
    parts = (getattr(found, part, None) for part in names)
    return tuple(inspect.unwrap(part) for part in parts if part is not None)


def is_collective(target: object) -> bool:
    """Whether a function is a collective or point-to-point call of a process group."""
    name = public_name(target) or ""
    parts = name.removeprefix("torch.ops.").split(".")
    return parts[0] in ("c10d", "_c10d_functional", "_c10d_functional_autograd") or (
        name.startswith("torch.distributed.") and not name.endswith(("is_initialized", "get_rank"))
    )


def triton_function(thing: object) -> Callable[..., object] | None:
    """Return the Python function of a Triton kernel, autotuned or not; None for anything else."""
    while type(thing).__module__.startswith("triton."):
        thing = getattr(thing, "fn", None)
        if inspect.isfunction(thing):
            return thing
    return None


def triton_kernel(index: int) -> object:
    """Return the Triton kernel at `index` of torch's table, by which graphs refer to it."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    return kernel_side_table.get_kernel(index)


def triton_constants(index: int) -> Mapping[str, object]:
    """Return the non-tensor arguments of a kernel call, from `index` of torch's table.

    Graphs refer to them by this index.
    """
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    return kernel_side_table.get_constant_args(index)


def add_triton_kernel(kernel: object) -> int:
    """Add a Triton kernel to the table of this process and return its index."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    return kernel_side_table.add_kernel(kernel)


def add_triton_constants(arguments: dict[str, object]) -> int:
    """Add non-tensor kernel arguments to the table of this process and return their index."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    return kernel_side_table.add_constant_args(arguments)


def captures_scalars() -> bool:
    """Whether Dynamo captures `Tensor.item()` in graphs.

    If it does not, an `item` call in a graph reads a float that Dynamo wrapped in a tensor.
    """
    from torch._dynamo import config

    return bool(getattr(config, "capture_scalar_outputs", True))


def is_scalar_assertion(target: object) -> bool:
    """Whether an operator is the assertion that `torch._check` adds to a graph."""
    return (
        isinstance(target, torch._ops.OpOverload) and target._schema.name == "aten::_assert_scalar"
    )


def is_mutating_op(target: object) -> bool:
    """Whether an operator's schema declares that it writes to an argument."""
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
