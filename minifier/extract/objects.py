"""Live objects as Python expressions: plain values, containers, tensors, modules."""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import inspect
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

from fullgraph.minifier.emit.literals import literal
from fullgraph.minifier.emit.program_text import Unwritable
from fullgraph.minifier.emit.syntax import constant
from fullgraph.minifier.extract import constructor_arguments as constructing
from fullgraph.minifier.extract.true_types import has_type, is_module

SHORT = 60
"""Maximum number of characters of an exact literal; a longer tensor becomes random numbers."""

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_DISPLAYED = (tuple, list, set, frozenset, dict, slice, deque, OrderedDict, defaultdict, Counter)
_NAMED = (type, FunctionType, BuiltinFunctionType, ModuleType)
_SAID_BY_REPR = (torch.dtype, torch.memory_format, torch.layout, torch.Size, range)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

Name = Callable[[object], str | None]
"""Returns an expression for an object; None if it has none for it."""


class Spelling:
    """Writer of objects as source expressions, which uses the names that the script defines."""

    def __init__(
        self,
        name: Name,
        construction: Name = lambda value: None,
        *,
        place: Name = lambda value: None,
        exact: bool = False,
    ) -> None:
        """The functions return an expression for an object, or None for other objects.

        `name` is for classes, functions and modules; `construction` for objects that only their
        maker can rebuild; `place` returns the variable of a container or tensor that several
        objects share. With `exact`, tensors of any length keep their values.
        """
        self.name, self.construction, self.place, self.exact = name, construction, place, exact

    def of(self, value: object) -> str:
        """Return an expression that reproduces `value`. Raises Unwritable."""
        text = self._spell_value(value)
        if not is_module(value):
            return text
        dtype, device = constructing.conversion_of(value)
        if device is not None or dtype is not None:
            text += f".to({', '.join(self._spell_value(each) for each in (device, dtype) if each)})"
        return text if value.training else f"{text}.eval()"

    def _spell_value(self, value: object) -> str:
        """Return an expression for a value; that of a module lacks device, dtype and eval mode."""
        if has_type(value, enum.Enum):
            return f"{self._spell_name(type(value))}.{value.name}"
        if has_type(value, *_SAID_BY_REPR):
            return repr(value)
        if type(value) in _PLAIN:
            return ast.unparse(constant(value))
        if has_type(value, torch.device):
            return f"torch.device({str(value)!r})"
        if type(value) in _DISPLAYED or has_type(value, torch.Tensor):
            return self.place(value) or self.content(value)
        if has_type(value, tuple) and hasattr(value, "_fields"):
            return f"{self._spell_name(type(value))}({self._spell_items(value)})"
        if type(value).__module__ == "numpy":
            return self._spell_array(value)
        if has_type(value, functools.partial):
            made = [self.of(value.func), *map(self.of, value.args)]
            made += [f"{key}={self.of(each)}" for key, each in value.keywords.items()]
            return f"{self._spell_name(functools)}.partial({', '.join(made)})"
        if has_type(value, MethodType):
            return f"{self.of(value.__self__)}.{value.__name__}"
        if has_type(value, *_NAMED):
            return self._spell_name(value)
        known = self._named(value) or self.construction(value)
        if known is None and is_module(value):
            known = self.container(value) or self.constructor(value)
        if known is None and dataclasses.is_dataclass(value):
            known = self._dataclass(value)
        if known is None:
            raise Unwritable(f"a {type(value).__qualname__} cannot be written as source")
        return known

    def content(self, value: Any) -> str:
        """Return an expression that makes a new tensor or builtin container."""
        return (
            self._spell_tensor(value)
            if has_type(value, torch.Tensor)
            else self._spell_container(value)
        )

    def _named(self, value: object) -> str | None:
        """Return the script's name for an object; None if it has none or is a proxy."""
        return None if type(value) is not value.__class__ else self.name(value)

    def _spell_name(self, value: object) -> str:
        """Return the script's name for a class or function. Raises Unwritable."""
        known = self.name(value)
        if known is None:
            what = getattr(value, "__qualname__", None) or getattr(value, "__name__", repr(value))
            raise Unwritable(f"{what} has no name that a script could import it by")
        return known

    def _spell_container(self, value: Any) -> str:
        """Return a builtin container, or a slice, as an expression."""
        if isinstance(value, slice):
            return f"slice({self._spell_items((value.start, value.stop, value.step))})"
        if isinstance(value, dict):
            pairs = (f"{self.of(key)}: {self.of(each)}" for key, each in value.items())
            display = f"{{{', '.join(pairs)}}}"
            if type(value) is dict:
                return display
            first = [self.of(value.default_factory)] if type(value) is defaultdict else []
            return self._call(type(value), *first, *([display] if value else []))
        if isinstance(value, deque):
            limit = [] if value.maxlen is None else [f"maxlen={value.maxlen}"]
            items = [f"[{self._spell_items(value)}]"] if value or limit else []
            return self._call(deque, *items, *limit)
        if isinstance(value, set | frozenset):
            inner = f"{{{', '.join(sorted(map(self.of, value)))}}}" if value else "set()"
            return f"frozenset({inner})" if isinstance(value, frozenset) else inner
        inner = self._spell_items(value)
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"

    def _call(self, kind: type, *arguments: str) -> str:
        return f"{self._spell_name(kind)}({', '.join(arguments)})"

    def _spell_items(self, values: Any) -> str:
        return ", ".join(self.of(each) for each in values)

    def _spell_tensor(self, value: torch.Tensor) -> str:
        """Return a literal, or random numbers if it is long and values need not be exact."""
        if isinstance(value, nn.Parameter):
            inner = self._spell_tensor(value.data)
            more = "" if value.requires_grad else ", requires_grad=False"
            return f"{self._spell_name(nn.Parameter)}({inner}{more})"
        exact = literal(value.detach()) if not value.is_leaf else literal(value)
        if len(exact) <= SHORT or self.exact or value.layout is not torch.strided:
            return exact
        return draw_tensor(value)

    def _dataclass(self, value: Any) -> str:
        """Return a constructor call with the fields that differ from their defaults."""
        made = []
        for field in dataclasses.fields(value):
            held, default = getattr(value, field.name), field.default
            if field.default_factory is not dataclasses.MISSING:
                default = field.default_factory()
            if field.init and not constructing.are_equal(held, default):
                made.append(f"{field.name}={self.of(held)}")
        return f"{self._spell_name(type(value))}({', '.join(made)})"

    def _spell_array(self, value: Any) -> str:
        """Return a NumPy array, scalar or dtype as source."""
        numpy = self._spell_name(sys.modules["numpy"])
        if type(value).__name__ == "dtype":
            return f"{numpy}.dtype({value.name!r})"
        if type(value).__name__ != "ndarray":
            return f"{numpy}.{type(value).__name__}({self._spell_value(value.item())})"
        if value.dtype.kind not in "biufc":
            raise Unwritable(f"an array of {value.dtype} cannot be written as source")
        listed = f"{numpy}.array({value.tolist()!r}, dtype={str(value.dtype)!r})"
        if len(listed) <= 2 * SHORT or self.exact:
            return listed.replace("nan", f"{numpy}.nan").replace("inf", f"{numpy}.inf")
        shape = ", ".join(map(str, value.shape))
        made = f"{numpy}.random.RandomState(0).randn({shape})"
        return made if value.dtype == "float64" else f"{made}.astype({str(value.dtype)!r})"

    def container(self, module: nn.Module) -> str | None:
        """Return a Sequential, ModuleList or ModuleDict with its contents; None for others."""
        if type(module) not in (nn.Sequential, nn.ModuleList, nn.ModuleDict):
            return None
        kind = self._spell_name(type(module))
        children = {name: self._spell_value(child) for name, child in module._modules.items()}
        numbered = list(children) == [str(i) for i in range(len(children))]
        texts = list(children.values())
        repeated = len(texts) > 2 and len(set(texts)) == 1 and "(" in texts[0]
        inner = f"{texts[0]} for _ in range({len(texts)})" if repeated else ", ".join(texts)
        if isinstance(module, nn.Sequential) and numbered:
            return f"{kind}(*[{inner}])" if repeated else f"{kind}({inner})"
        if isinstance(module, nn.ModuleList):
            return f"{kind}([{inner}])"
        pairs = ", ".join(f"{name!r}: {text}" for name, text in children.items())
        if isinstance(module, nn.Sequential):
            return (
                f"{kind}({self._spell_name(sys.modules['collections'])}.OrderedDict({{{pairs}}}))"
            )
        return f"{kind}({{{pairs}}})"

    def constructor(self, value: object) -> str | None:
        """Return a constructor call that makes an object of the same structure; None if unknown.

        Its arguments are recovered from the object's attributes.
        """
        arguments = constructing.find_constructor_arguments(value)
        if arguments is None:
            return None
        made = []
        for name, (each, by_keyword) in arguments.items():
            text = self._spell_value(each)
            made.append(f"{name}={text}" if by_keyword else text)
        return f"{self._spell_name(type(value))}({', '.join(made)})"


def draw_tensor(tensor: torch.Tensor) -> str:
    """Return a short expression for a random tensor like `tensor`: "torch.randn(2, 3)".

    It has the same dtype, shape, strides and device and, if of integers, the same range.
    """
    shape = ", ".join(map(str, tensor.shape))
    sizes = f"({shape}{',' * (tensor.dim() == 1)})"
    end = "" if tensor.device.type == "cpu" else f", device={str(tensor.device)!r}"
    grad = tensor.requires_grad and tensor.is_leaf
    floating = tensor.is_floating_point() or tensor.is_complex()
    usual = torch.float32 if floating else torch.int64
    wanted = "" if tensor.dtype is usual else f", dtype={tensor.dtype}"
    low, high = _integer_range(tensor)
    layout = _layout_call(tensor)
    if layout is None:
        wanted = "" if tensor.dtype is torch.float32 else f", dtype={tensor.dtype}"
        made = f"torch.empty_strided({sizes}, {tuple(tensor.stride())}{wanted}{end})"
        made += ".normal_()" if floating else f".random_({low}, {high + 1})"
        return made + ".requires_grad_()" * grad
    if tensor.dtype is torch.bool:
        made = f"torch.rand({shape or '()'}{end}) > 0.5"
        return f"({made}){layout}" if layout else made
    if floating:
        inside = ", requires_grad=True" if grad and not layout else ""
        made = f"torch.randn({shape or '()'}{wanted}{end}{inside}){layout}"
        return made + ".requires_grad_()" * (grad and bool(layout))
    return f"torch.randint({low}, {high + 1}, {sizes}{wanted}{end}){layout}"


def _layout_call(tensor: torch.Tensor) -> str | None:
    """Return the call that gives a contiguous tensor the strides of `tensor`.

    For example ".to(memory_format=torch.channels_last)". "" if `tensor` is contiguous, None if no
    call is known.
    """
    if tensor.is_contiguous():
        return ""
    for rank, name in ((4, "channels_last"), (5, "channels_last_3d")):
        if tensor.dim() == rank and tensor.is_contiguous(memory_format=getattr(torch, name)):
            return f".to(memory_format=torch.{name})"
    return None


def _integer_range(tensor: torch.Tensor) -> tuple[int, int]:
    """Return (lowest, highest) integer to draw: the range of `tensor`, extended to contain 0."""
    if tensor.is_floating_point() or tensor.is_complex() or tensor.device.type == "meta":
        return 0, 1
    if not tensor.numel():
        return 0, 1
    return min(int(tensor.min()), 0), max(int(tensor.max()), 0)
