"""The operator table of the analyses, from torch's schemas and tags.

python docs/operators.py            writes rewrites/analysis/operators.json
python docs/operators.py --check    exit code 1 if it is out of date

Names without a schema (Python functions, conversions, layers) are called on small samples: what
they dispatch has schemas, and results that share memory with an operand are views.
"""

from __future__ import annotations

import inspect
import itertools
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fullgraph.rewrites.analysis import word_set

TABLE = Path(__file__).parent.parent / "rewrites/analysis/operators.json"
MODULES = (torch, torch.Tensor, functional, torch.special, torch.linalg)
SPACES = ("", "special_", "linalg_")

# What no schema says.
UNTAGGED = word_set(
    """
    _to_copy alias clone copy_ detach full_like lift_fresh new_empty_strided ones_like
    zeros_like floor_divide hardswish log_sigmoid_forward masked_fill
    """
)
"""Elementwise operators of ATen without the tag."""
EFFECTS = word_set(
    """
    __delitem__ __setitem__ _assert _assert_async _check backward compile load manual_seed
    register_hook register_post_accumulate_grad_hook retain_grad save seed set_default_device
    set_default_dtype set_grad_enabled set_num_threads set_rng_state synchronize
    """
)
RAISING = word_set(
    """
    cholesky eig eigh inv inverse item lstsq multinomial pinv qr solve svd
    """
)
"""Operators that raise for some elements: a singular matrix."""
INDEXING = word_set("cross_entropy embedding gather index_select nll_loss take_along_dim")
"""Operators that raise for an index out of range."""
VIEWS = {"H", "T", "cuda", "data", "imag", "mH", "mT", "real", "type"}
"""Attributes, and methods that need a device or a dtype."""
RANDOM = {"fractional_max_pool2d", "fractional_max_pool3d"}
"""Functions that draw numbers before they dispatch an operator."""


class Dispatched(TorchDispatchMode):
    """Mode that records the operators of ATen that a call dispatches."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[torch._ops.OpOverload] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.operators.append(func)
        return func(*args, **(kwargs or {}))


def table() -> dict[str, str]:
    """Return the properties of each name, separated by blanks."""
    names = {name for module in MODULES for name in dir(module) if is_public(module, name)}
    found = {name: properties_of(name) for name in names}
    sets = {"effect": EFFECTS, "raising": RAISING, "indexing": INDEXING}
    sets |= {"view": VIEWS, "random": RANDOM}
    for name in frozenset().union(*sets.values()):
        known = found.setdefault(name, set())
        known |= {one for one, which in sets.items() if name in which}
    for name, kind in vars(torch.nn).items():
        if isinstance(kind, type) and issubclass(kind, torch.nn.Module):
            found[name] = properties_of_layer(kind)
    return {name: " ".join(sorted(found[name])) for name in sorted(found) if found[name]}


def is_public(module: object, name: str) -> bool:
    """Return whether a name is a public function or method."""
    value = getattr(module, name, None)
    hidden = name.startswith("_") or isinstance(value, type)
    return callable(value) and not hidden


def overloads(name: str) -> list[torch._ops.OpOverload]:
    """Return the overloads that take a tensor or make one."""
    packets = [getattr(torch.ops.aten, space + name, None) for space in SPACES]
    every = [getattr(p, one) for p in packets if p is not None for one in p.overloads()]
    return [one for one in every if "Tensor" in str(one._schema)]


def properties_of(name: str) -> set[str]:
    """Return the properties of a function or method, from its schemas, else from samples."""
    every = overloads(name)
    plain = [one for one in every if not one._schema.is_mutable] or every
    tags = {tag for one in every for tag in one.tags}
    found = set()
    if any(is_view(one) for one in plain):
        found.add("view")
    if name.endswith("_") and any(one._schema.is_mutable for one in every):
        found.add("in-place")
    kernels = [one for one in plain if not is_composite(one)]
    if kernels and all(torch.Tag.pointwise in one.tags and gives_tensor(one) for one in kernels):
        found.add("elementwise")
    if torch.Tag.nondeterministic_seeded in tags and not any(map(needs_dropout, every)):
        found.add("random")
    if tags & {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}:
        found.add("data-dependent")
    if torch.Tag.reduction in tags:
        found.add("reduction")
    calls = []
    if not name.endswith("_") and name not in EFFECTS and not kernels:
        calls = list(sampled_calls(name, every))
        found |= properties_of_calls(calls)
    if name in UNTAGGED and not name.startswith(("_", "new_")):
        found.add("elementwise")
    found |= results_of(name, every, kernels, calls)
    if {"random", "data-dependent", "in-place"} & found or "out" in name.split("_"):
        found.discard("elementwise")
    return found


def results_of(
    name: str,
    every: list[torch._ops.OpOverload],
    kernels: list[torch._ops.OpOverload],
    calls: list[Call],
) -> set[str]:
    """Return what a function gives, as words: "gives-tensor", "gives-tensors", "gives-list".

    From the schemas of its overloads, else from samples. "gives-bool-tensor" where floats give
    booleans, "gives-value" for a Python value, "dynamic-shape" where its size depends on data.
    """
    found = set()
    for overload in every:
        kinds = [str(one.type) for one in overload._schema.returns]
        if len(kinds) > 1 and set(kinds) == {"Tensor"}:
            found.add("gives-tensors")
        else:
            found |= {RESULTS[kind] for kind in kinds[:1] if kind in RESULTS}
    for operators, tensors, result in calls:
        if not every:
            found.add(kind_of(result))
        if any(torch.Tag.dynamic_output_shape in one.tags for one in operators):
            found.add("dynamic-shape")
        if is_bool(result) and tensors[0].dtype == torch.float32:
            found.add("gives-bool-tensor")
    if any(torch.Tag.dynamic_output_shape in one.tags for one in kernels):
        found.add("dynamic-shape")
    if name not in EFFECTS and any(map(is_bool, results_on_meta(name))):
        found.add("gives-bool-tensor")
    return found - {""}


def is_bool(result: object) -> bool:
    """Return whether a result is a tensor of booleans."""
    return isinstance(result, torch.Tensor) and result.dtype == torch.bool


def results_on_meta(name: str) -> Iterator[object]:
    """Yield the results of a name for floats without memory, which runs no kernel."""
    for module, count in itertools.product((torch, torch.Tensor), (1, 2, 3)):
        if is_public(module, name):
            tensors = [torch.ones(3, 3, device="meta") for _ in range(count)]
            with suppress(Exception):  # no function of such arguments
                yield getattr(module, name)(*tensors)


RESULTS = {"Tensor": "gives-tensor", "List[Tensor]": "gives-list"} | dict.fromkeys(
    ("bool", "int", "float", "Scalar", "SymInt", "ScalarType", "Device"), "gives-value"
)


def kind_of(result: object) -> str:
    """Return the word for a result."""
    if isinstance(result, torch.Tensor):
        return "gives-tensor"
    elements = list(result) if isinstance(result, tuple | list) else []
    if elements and all(isinstance(one, torch.Tensor) for one in elements):
        return "gives-tensors" if isinstance(result, tuple) else "gives-list"
    return "" if result is None else "gives-value"


def needs_dropout(overload: torch._ops.OpOverload) -> bool:
    """Return whether an operator draws numbers only where `dropout_p` is given."""
    return any(
        one.name == "dropout_p" and one.default_value == 0 for one in overload._schema.arguments
    )


def is_composite(overload: torch._ops.OpOverload) -> bool:
    """Return whether an operator consists of others, which its tags say nothing about."""
    try:
        return overload.has_kernel_for_dispatch_key("CompositeImplicitAutograd")
    except RuntimeError:  # an operator of TorchScript alone
        return True


def is_view(overload: torch._ops.OpOverload) -> bool:
    """Return whether a result may share memory with an operand that is not changed."""
    infos = [one.alias_info for one in overload._schema.returns]
    return any(info is not None and not info.is_write for info in infos)


def gives_tensor(overload: torch._ops.OpOverload) -> bool:
    """Return whether the result is one tensor."""
    return [str(one.type) for one in overload._schema.returns] == ["Tensor"]


Call = tuple[list[torch._ops.OpOverload], list[torch.Tensor], object]
"""What a call dispatched, its tensors and its result."""


def properties_of_calls(calls: list[Call]) -> set[str]:
    """Return the properties that calls show: elementwise only if every one is."""
    found = set()
    if calls and all(is_elementwise(*one) for one in calls):
        found.add("elementwise")
    for operators, tensors, result in calls:
        leaves = [one for one in tree_leaves(result) if isinstance(one, torch.Tensor)]
        dense = [one for one in leaves if one.layout is torch.strided]
        storages = {one.untyped_storage().data_ptr() for one in tensors}
        if any(one.numel() and one.untyped_storage().data_ptr() in storages for one in dense):
            found.add("view")
        if any(torch.Tag.nondeterministic_seeded in one.tags for one in operators):
            found.add("random")
    return found


def is_elementwise(
    operators: list[torch._ops.OpOverload], tensors: list[torch.Tensor], result: object
) -> bool:
    """Return whether a call dispatched only elementwise operators."""
    same = isinstance(result, torch.Tensor) and result.shape == tensors[0].shape
    tagged = (
        torch.Tag.pointwise in one.tags or one._schema.name.removeprefix("aten::") in UNTAGGED
        for one in operators
    )
    return same and all(tagged)


def sampled_calls(name: str, every: Iterable[torch._ops.OpOverload]) -> Iterator[Call]:
    """Yield the sample calls of a name that succeed."""
    functions = [getattr(m, name) for m in MODULES if m is not torch and is_public(m, name)]
    if every and is_public(torch, name):
        functions.append(getattr(torch, name))
    for function in functions:
        training = "training" in signature_of(function)
        keywords = [{}, {"training": False}] if training else [{}]
        for dtype, count, options in itertools.product(DTYPES, (1, 2, 3), keywords):
            tensors = [torch.ones(3, 3).to(dtype) for _ in range(count)]
            yield from call(partial(function, **options), tensors)


DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool),
)


def signature_of(function: object) -> frozenset[str]:
    """Return the names of a function's parameters; none if they are unknown."""
    try:
        return frozenset(inspect.signature(function).parameters)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return frozenset()


def call(function: Callable[..., object], tensors: list[torch.Tensor]) -> Iterator[Call]:
    """Yield the call of a function on tensors, if it succeeds."""
    with Dispatched() as mode:
        try:
            result = function(*tensors)
        except Exception:  # no function of such arguments
            return
    yield mode.operators, tensors, result


def properties_of_layer(kind: type[torch.nn.Module]) -> set[str]:
    """Return the properties of calling a layer, in training."""
    found, plain = {"layer"}, False
    made: Any = None
    for args in LAYER_ARGUMENTS:
        try:
            made = kind(*args)
        except Exception:  # other arguments
            continue
        plain |= not any(True for _ in made.parameters())
        if hasattr(made, "inplace"):
            made.inplace = False
        if hasattr(made, "running_mean"):
            found.add("stateful")
        if hasattr(made, "num_layers"):  # dropout between them
            found.add("random")
        for ndim, count, mode in itertools.product((1, 2, 3, 4, 5), (1, 2), (True, False)):
            tensors = [torch.ones([2, 4, 4, 4, 4][:ndim]) for _ in range(count)]
            made.train(mode)
            runs = [list(call(made, tensors)) for _ in range(2)]
            found |= properties_of_calls(runs[1]) & {"view", "random"}  # a lazy layer is made by 1
    if made is None and "forward" in vars(kind):  # it may hold layers that draw numbers
        found.add("random")
    holds = kind.forward is torch.nn.Module.forward or hasattr(kind, "__len__")
    options = {"affine", "module", "elementwise_affine"} & signature_of(kind)
    return found if plain and not holds and not options else found | {"parameters"}


LAYER_ARGUMENTS = ((), (1,), (4,), (4, 4), (4, 4, 1), (2, (2, 2)))

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    before = TABLE.read_text(encoding="utf-8")
    version = ".".join(torch.__version__.split(".")[:2])
    if "--check" in sys.argv[1:] and json.loads(before)["torch"] != version:
        sys.exit(0)  # the table of another version
    after = json.dumps({"torch": version, "operators": table()}, indent=1) + "\n"
    if "--check" in sys.argv[1:]:
        sys.exit(0 if before == after else f"{TABLE.name}: run `python docs/operators.py`.")
    TABLE.write_text(after, encoding="utf-8")
