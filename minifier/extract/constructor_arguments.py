"""Recover the constructor arguments of an object from the object."""

from __future__ import annotations

import inspect
import itertools
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from types import CellType, FunctionType

import torch
from torch import nn

from fullgraph.compiler.isolation import run_isolated
from fullgraph.compiler.sources import Owner, owner_of
from fullgraph.minifier.extract.sharing import SharedObjects
from fullgraph.minifier.extract.true_types import attributes_of, has_type, is_module

Arguments = dict[str, tuple[object, bool]]
"""By parameter name: the argument, and whether it is passed by keyword."""

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), torch.dtype)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_TRIES, _SEEN, _SECONDS = 2000, 10, 3.0
"""Maximum number of tries, of guesses for one argument, and of seconds for all tries."""
_OMIT = object()
"""Stands for an argument that is not passed."""
_CONTAINERS = (tuple, list, dict, set, frozenset, deque, str, bytes, int, float, complex)
"""Types whose objects have content besides their attributes."""
_DEPTH = 6
"""Depth to which nested containers and closures are compared."""


def find_constructor_arguments(value: object) -> Arguments | None:
    """Return arguments with which the class of `value` makes an object of the same structure.

    An argument is read from the attribute of the same name, or guessed among the numbers in the
    object. Each choice is tried on the meta device, in a child process if the class is the user's.
    None if no choice succeeds within the limits.
    """
    kind = type(value)
    wanted, places = structure_of(value), SharedObjects([value]).places

    def find_choice(say: Callable[[object], None]) -> int | None:
        """Return the number of the first choice of arguments that reproduces the structure."""
        start = time.monotonic()
        for number, choice in enumerate(itertools.islice(_argument_choices(value), _TRIES)):
            if time.monotonic() - start > _SECONDS:
                return None
            try:
                made = _construct(value, choice)
                if structure_of(made) == wanted and SharedObjects([made]).places == places:
                    return number
            except Exception:  # a constructor may refuse what it is offered
                continue
        return None

    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is not None and owner_of(file) is Owner.TORCH:
        number = find_choice(lambda message: None)
    else:
        number = run_isolated(find_choice, seconds=2 * _SECONDS, objects=(value,)).value
    if number is None:
        return None
    return next(itertools.islice(_argument_choices(value), number, None))


def _construct(value: object, choice: Arguments) -> object:
    """Return an object of the class of `value`, made on the meta device from `choice`.

    Raises what the constructor raises.
    """
    positional = [each for each, keyword in choice.values() if not keyword]
    named = {name: each for name, (each, keyword) in choice.items() if keyword}
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        made = type(value)(*positional, **named)
    if is_module(made) and is_module(value):
        made.to(conversion_of(value)[0])
    return made


def _argument_choices(value: object) -> Iterator[Arguments]:
    """Yield choices of constructor arguments for `value`, the likeliest first.

    Yields nothing if the parameters of the constructor are unknown.
    """
    parameters = _constructor_parameters(type(value))
    if parameters is None:
        return
    options = [_parameter_options(value, parameter) for parameter in parameters]
    for unlikely in range(sum(len(each) - 1 for each in options) + 1):
        for chosen in _combinations(options, unlikely):
            yield _bind_arguments(parameters, chosen)


def _parameter_options(value: object, parameter: inspect.Parameter) -> Sequence[object]:
    """Return likely arguments for one constructor parameter of `value`, the likeliest first.

    `_OMIT` among them leaves the argument out, so that the default applies.
    """
    known, argument = _known_argument(value, parameter)
    default = parameter.default
    if known:
        likely = [_OMIT] if default is None or are_equal(argument, default) else []
        if isinstance(argument, tuple) and len(set(argument)) == 1:  # 3 is kept as (3, 3)
            likely.append(_OMIT if are_equal(argument[0], default) else argument[0])
        return [*likely, argument]
    if default is parameter.empty:
        return _plain_guesses(value, parameter, int)
    if type(default) in (int, bool, float):
        return [_OMIT, *_plain_guesses(value, parameter, type(default))]
    return [_OMIT]


def _combinations(options: Sequence[Sequence[object]], total: int) -> Iterator[tuple[object, ...]]:
    """Yield each choice of one option per parameter whose positions add up to `total`.

    `options` has one list for each parameter, the likeliest option at position 0, so that a small
    `total` gives likely choices.
    """
    if not options:
        if total == 0:
            yield ()
        return
    for position, each in enumerate(options[0][: total + 1]):
        for rest in _combinations(options[1:], total - position):
            yield (each, *rest)


def _bind_arguments(parameters: Sequence[inspect.Parameter], chosen: Sequence[object]) -> Arguments:
    """Return {parameter name: (argument, whether it is passed by keyword)}.

    Arguments that are `_OMIT` are left out.
    """
    found: Arguments = {}
    skipped = False
    for parameter, argument in zip(parameters, chosen, strict=True):
        if argument is _OMIT:
            skipped = True
            continue
        optional = parameter.default is not parameter.empty
        keyword = parameter.kind is parameter.KEYWORD_ONLY or skipped or optional
        found[parameter.name] = argument, keyword
    return found


def _constructor_parameters(kind: type) -> list[inspect.Parameter] | None:
    """Return the parameters of a class's constructor; None if they are unknown.

    If the constructor only has `*args` and `**kwargs`, those of a base class.
    """
    for base in kind.__mro__:
        try:
            parameters = list(inspect.signature(base).parameters.values())
        except (TypeError, ValueError):
            return None
        named = [one for one in parameters if one.kind not in _VARIADIC]
        if named or not parameters:
            recurrent = base is nn.RNNBase and kind is not base
            return [one for one in named if not (recurrent and one.name == "mode")]
    return None


def _plain_guesses(value: object, parameter: inspect.Parameter, kind: type) -> list[object]:
    """Return likely arguments of type `kind` for `parameter`, from attributes inside `value`.

    Attributes of its submodules count too. Those with a similar name come first, then the most
    frequent values. [False, True] if `kind` is bool.
    """
    if kind is bool:
        return [False, True]
    modules = list(value.modules()) if is_module(value) else [value]
    held: Counter[object] = Counter()
    like: Counter[object] = Counter()
    for module in modules:
        for name, each in getattr(module, "__dict__", {}).items():
            for one in each if isinstance(each, tuple | list) else (each,):
                if type(one) is kind and not name.startswith("_"):
                    held[one] += 1
                    alike = SequenceMatcher(None, name, parameter.name).ratio()
                    like[one] = max(like[one], round(10 * alike) if alike > 0.6 else 0)
    if is_module(value):
        named = value._modules.get(parameter.name)
        for one in vars(named).values() if named is not None else ():
            if type(one) is kind:
                like[one] = 10
        if kind is int:
            held.update(size for p in value.parameters() for size in p.shape)
            held.update(len(m) for m in modules if isinstance(m, nn.ModuleList | nn.Sequential))
    return sorted(held, key=lambda one: (-like[one], -held[one]))[:_SEEN]


def _known_argument(value: object, parameter: inspect.Parameter) -> tuple[bool, object]:
    """Return (True, argument) if an attribute of `value` shows the argument for `parameter`.

    For example `value.size` for the parameter `size`. (False, None) if no attribute does.
    """
    name, own = parameter.name, attributes_of(value)
    if is_module(value):
        own = {**own, **value._parameters, **value._buffers, **value._modules}
        if name in ("device", "dtype"):
            return False, None
        if name == "bias" and isinstance(value, nn.MultiheadAttention):
            return True, value.in_proj_bias is not None
    name = name if name in own else f"_{name}"
    if name not in own:
        return False, None
    held = own[name]
    if is_module(held) and type(parameter.default) in (int, float, bool):
        return False, None
    if isinstance(parameter.default, bool) and (held is None or isinstance(held, torch.Tensor)):
        return True, held is not None
    return True, held


def conversion_of(module: nn.Module) -> tuple[torch.dtype | None, str | None]:
    """Return the arguments (dtype, device) of the `.to(…)` that converted a whole module.

    The dtype is None for float32 or mixed dtypes, the device None for "cpu" or mixed devices.
    """
    tensors = [*module.parameters(), *module.buffers()]
    dtypes = {t.dtype for t in tensors if t.is_floating_point()}
    devices = {str(t.device) for t in tensors}
    dtype = dtypes.pop() if len(dtypes) == 1 else torch.float32
    device = devices.pop() if len(devices) == 1 else "cpu"
    return (
        None if dtype is torch.float32 else dtype,
        None if device == "cpu" else device,
    )


def structure_of(value: object) -> object:
    """Return a description that is equal for objects made with the same constructor arguments.

    It has classes, plain attributes and the shapes of tensors, but no weights.
    """
    if is_module(value):
        return [
            (path, type(module), _comparable_attributes(vars(module)), _tensor_metadata(module))
            for path, module in value.named_modules()
        ]
    content = _comparable_value(value) if has_type(value, *_CONTAINERS) else None
    return type(value), content, _comparable_attributes(attributes_of(value))


def _comparable_attributes(held: Mapping[str, object]) -> dict[str, object]:
    """Return an object's attributes in a form that `==` can compare.

    `held` are all attributes of the object. The train mode, hooks, parameters, buffers and
    submodules are left out.
    """
    return {
        name: _comparable_value(each)
        for name, each in held.items()
        if name != "training"
        and not name.startswith(("_forward_", "_backward_", "_state_dict_"))
        and name not in ("_parameters", "_buffers", "_modules")
    }


def _comparable_value(value: object, depth: int = 0) -> object:
    """Return something in place of `value` that `==` can compare: a tensor's dtype and shape.

    It is the type of `value` if nothing better is known, or if more than six containers are around
    `value`; `depth` counts them.
    """
    if depth > _DEPTH:
        return type(value)
    if has_type(value, tuple, list, deque):
        return [_comparable_value(each, depth + 1) for each in value]
    if has_type(value, torch.Tensor):
        return value.dtype, tuple(value.shape)
    if has_type(value, FunctionType):
        return _comparable_function(value, depth + 1)
    if has_type(value, *_PLAIN, type, set, frozenset):
        return value
    if has_type(value, dict):
        return {key: _comparable_value(each, depth + 1) for key, each in dict.items(value)}
    return type(value)


def _comparable_function(function: FunctionType, depth: int) -> object:
    """Return a function's code, defaults and closure in a form that `==` can compare.

    `depth` is the number of containers around the function.
    """
    cells = [cell for cell in function.__closure__ or () if not _is_empty(cell)]
    held = [cell.cell_contents for cell in cells]
    return function.__code__, _comparable_value([function.__defaults__, *held], depth)


def _is_empty(cell: CellType) -> bool:
    """Return whether a closure cell has not been assigned yet."""
    try:
        return cell.cell_contents is cell
    except ValueError:
        return True


def _tensor_metadata(module: nn.Module) -> dict[str, object]:
    """Return the dtype and shape of each parameter and buffer of a module, without its children."""
    held = {**module._parameters, **module._buffers}
    return {name: t if t is None else (t.dtype, tuple(t.shape)) for name, t in held.items()}


def are_equal(one: object, other: object) -> bool:
    """Return whether two arguments are equal; two tensors are equal only if they are one object."""
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        return one is other
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:
        return False
