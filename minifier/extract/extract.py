"""A live program as standalone Python source: a `build()` that returns it and its inputs."""

from __future__ import annotations

import ast
import importlib
import inspect
import keyword
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.isolation import references, run_isolated
from fullgraph.minifier.emit.literals import imports, literal
from fullgraph.minifier.emit.program_text import Unwritable
from fullgraph.minifier.emit.spacing import space_definitions
from fullgraph.minifier.emit.syntax import names
from fullgraph.minifier.extract.definitions import Sources
from fullgraph.minifier.extract.objects import Spelling
from fullgraph.minifier.extract.sharing import SharedObjects
from fullgraph.minifier.extract.true_types import attributes_of, has_type, is_module

_INTERNAL = frozenset(vars(nn.Module()))
"""Names of the attributes that every module has."""
_SECONDS = 20.0
"""Time limit, in seconds, for running a text to find the objects that it shares."""


def standalone(
    target: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object] | None = None,
    *,
    earlier: Sequence[tuple[tuple[object, ...], Mapping[str, object]]] = (),
    exact: bool = False,
) -> str:
    """Return source with a `build()` that returns an equivalent of `target` and its inputs.

    With `earlier` calls the inputs are a list of those of each call.

    It imports no user code: classes and functions are copied with everything that they use. Modules
    are made by their constructors if the arguments can be recovered. Weights and inputs are random,
    unless `exact` keeps their values. Raises Unwritable for an object that cannot be rebuilt.
    """
    calls = [*((args, dict(named)) for args, named in earlier), (tuple(args), dict(kwargs or {}))]
    roots = (target, calls)
    inputs = calls[0] if not earlier else ([args or named for args, named in calls], {})
    shared = SharedObjects((target, *inputs))
    text = _write_build(roots, exact, None)
    if not shared or _sharing_of(text) == shared.places:
        return text
    return _write_build(roots, exact, shared)


def _write_build(
    roots: tuple[Any, list[tuple[tuple[object, ...], dict[str, object]]]],
    exact: bool,
    shared: SharedObjects | None,
) -> str:
    """Return source with a `build()` that returns `roots`: the target, and the inputs of its calls.

    With `exact`, weights and inputs keep their values; else they are random. Each of the `shared`
    objects becomes a variable; None: every reference gets its own copy.
    """
    flat, cyclic = False, dict[int, object]()
    while True:
        writer = _BuildWriter(exact, shared, flat, cyclic)
        try:
            calls = [writer.inputs(roots[0], *call) for call in roots[1]]
            inputs = calls[0] if len(calls) == 1 else f"[{', '.join(calls)}]"
            return writer.text(writer.model(roots[0]), inputs)
        except _NeededByDefinition:
            flat = True
        except _RefersToItself as error:
            cyclic[id(error.value)] = error.value


def _sharing_of(text: str) -> frozenset[frozenset[str]] | None:
    """Return the paths to each shared object of the program in `text`; None if it cannot run."""

    def run(_: object) -> frozenset[frozenset[str]]:
        """Return the places of the shared objects, in a child process."""
        module = sys.modules["program"] = ModuleType("program")
        exec(compile(text, "program.py", "exec", dont_inherit=True), vars(module))
        model, inputs = module.build()
        named = isinstance(inputs, dict)
        given: tuple[object, ...] = () if named else inputs
        return SharedObjects((model, given, inputs if named else {})).places

    return run_isolated(run, where="fork", seconds=_SECONDS).value


def from_builder(build: Callable[[], object]) -> str:
    """Return source of a live `build` and what it uses; raise Unwritable if it has none."""
    writer = _BuildWriter(exact=False)
    name = writer.sources.name(build)
    if name is None:
        raise Unwritable("build() is no Python function.")
    more = "" if name == "build" else f"\n\ndef build():\n    return {name}()[:2]\n"
    return space_definitions(writer.sources.text() + more)


def from_file(path: str, name: str = "build") -> str:
    """Return a file's text with a `build()` for the object called `name` in it.

    The object is a function called `build_…`, or a module, class or function whose inputs are
    `NAME_inputs`, `inputs` or the inputs from the file's own `build()`. Raises FullgraphError if
    the file has no such name or no inputs.
    """
    text = Path(path).read_text()
    kinds = _assigned_names(ast.parse(text))
    if name == "build" and "build" in kinds:
        return text
    if name not in kinds:
        raise FullgraphError(f"{path} has no name {name!r}: name something that it defines.")
    end = text.rstrip("\n") + "\n"
    if name.startswith("build_"):
        return f"{end}\n\ndef build():\n    return {name}()[:2]\n"
    given = next((n for n in (f"{name}_inputs", "inputs") if n in kinds), None)
    if given is not None:
        inputs = f"{given}()" if kinds[given] is ast.FunctionDef else given
    elif "build" in kinds:
        end += "\n\nbuild_first = build\n"
        inputs = "build_first()[1]"
    else:
        raise FullgraphError(f"{path} says nothing about the inputs of {name}: add {name}_inputs.")
    model = f"{name}()" if kinds[name] is ast.ClassDef else name
    return f"{end}\n\ndef build():\n    return {model}, {inputs}\n"


def _assigned_names(tree: ast.Module) -> dict[str, type[ast.stmt]]:
    """Return the top-level names of a file, each with the type of statement that binds it."""
    found: dict[str, type[ast.stmt]] = {}
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            found[statement.name] = type(statement)
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    found[target.id] = type(statement)
    return found


class _BuildWriter:
    """Writer of the source of `build()`."""

    def __init__(
        self,
        exact: bool,
        shared: SharedObjects | None = None,
        flat: bool = False,
        cyclic: Mapping[int, object] | None = None,
    ) -> None:
        """`flat` writes statements among the definitions, which can then use what they make;
        `cyclic` are objects, by id, whose constructor arguments would contain the object itself."""
        self.cyclic = cyclic or {}
        self.exact, self.flat = exact, flat
        self.shared_objects = shared
        self.sources = Sources(self._spell)
        self.spelling = Spelling(
            self.sources.name, self._construction, place=self._place, exact=exact
        )
        self.lines: list[str] = self.sources.texts if flat else []
        """The statements of `build`, or with `flat` those of the module."""
        self.shared: set[int] = set()
        """Ids of the modules that have more than one parent."""
        self.made: dict[int, tuple[object, str]] = {}
        """Objects by id, kept alive, with their variable; "" while an object is being written."""

    def text(self, model: str, inputs: str) -> str:
        """Return the script: definitions, and a `build` that returns these two expressions."""
        body = [*([] if self.flat else self.lines), f"return {model}, {inputs}"]
        if any("torch." in line or "nn." in line for line in (*body, *self.lines)):
            self.sources.name(torch)
            (self.lines if self.flat else body).insert(0, "torch.manual_seed(0)")
        for line in imports("\n".join(body)):
            self.sources.name(importlib.import_module(line.split()[-1]))
        indented = "\n".join(f"    {line}" for line in body)
        return space_definitions(f"{self.sources.text()}\ndef build():\n{indented}\n")

    def model(self, target: object) -> str:
        """Write the statements that make `target`, and return its expression."""
        holder = getattr(target, "__self__", None)
        if inspect.ismethod(target) and holder is not None:
            return f"{self.model(holder)}.{target.__name__}"
        if is_module(target):
            self.shared = _shared_modules(target)
        made = self.spelling.of(target)
        if not is_module(target):
            return made
        finish = [
            *_mode_statements(target),
            *_freeze_statements(target),
            *(_value_statements(target) if self.exact else ()),
        ]
        if not finish:
            return made
        name = made if made.isidentifier() else self._assign_variable(target, made)
        self.lines += [line.replace("{}", name) for line in finish]
        return name

    def inputs(self, target: Any, args: Sequence[object], kwargs: dict[str, object]) -> str:
        """Return the expression of the inputs: a tuple, or a dict if some are passed by keyword."""
        if kwargs:
            function = target.forward if is_module(target) else target
            bound = inspect.signature(function).bind(*args, **kwargs)
            if bound.kwargs:
                if bound.args and len(bound.arguments) != len(bound.args) + len(bound.kwargs):
                    raise Unwritable("Its inputs are both *args and keywords: wrap the call.")
                names = dict(zip(bound.arguments, bound.args, strict=False))
                pairs = {**names, **bound.kwargs}.items()
                return f"{{{', '.join(f'{k!r}: {self.spelling.of(v)}' for k, v in pairs)}}}"
            args = bound.args
        return self.spelling.of(tuple(args))

    def _spell(self, value: object) -> str:
        """Return an expression for a value in a definition. Raises _NeededByDefinition."""
        before = len(self.lines)
        text = self.spelling.of(value)
        variables = {name for _, name in self.made.values() if name}
        is_local = len(self.lines) > before or variables.intersection(names(text, ast.Load))
        if is_local and not self.flat:
            raise _NeededByDefinition
        return text

    def _place(self, value: object) -> str | None:
        """Return the variable of a container or tensor that objects share; None if not shared."""
        if self.shared_objects is None or value not in self.shared_objects:
            return None
        if id(value) in self.made:
            return self.made[id(value)][1]
        name = self.sources.reserve_name(self.shared_objects.name_of(value), value)
        self.made[id(value)] = value, name
        if not has_type(value, list, dict, set) or not any(references(value)):
            self.lines.append(f"{name} = {self.spelling.content(value)}")
            return name
        self.lines.append(f"{name} = {self.spelling.content(type(value)())}")  # may be in a cycle
        method = "extend" if isinstance(value, list) else "update"
        self.lines.append(f"{name}.{method}({self.spelling.content(value)})")
        return name

    def _construction(self, value: object) -> str | None:
        """Return an object's variable or a call that makes it; None if it cannot be rebuilt."""
        known = self.made.get(id(value))
        if known is not None:
            if not known[1]:
                raise _RefersToItself(value)
            return known[1]
        if is_module(value):
            made = self.spelling.container(value)
            if made is not None:
                return self._assign_variable(value, made) if id(value) in self.shared else made
        elif not _is_rebuildable(type(value)):
            return None
        self.made[id(value)] = value, ""
        made = None if id(value) in self.cyclic else self.spelling.constructor(value)
        if made is None:
            made = self._by_hand(value)
        elif not is_module(value) or id(value) in self.shared:
            made = self._assign_variable(value, made)
        if made.isidentifier():
            self.made[id(value)] = value, made
        else:
            del self.made[id(value)]
        return made

    def _by_hand(self, value: object) -> str:
        """Write statements that make an object without its constructor; return its variable."""
        kind = self.spelling.of(type(value))
        name = self._assign_variable(value, self._empty(value, kind))
        self._fill(value, name)
        held = attributes_of(value)
        if is_module(value):
            self.lines.append(f"{self.sources.name(nn.Module)}.__init__({name})")
            held = {k: v for k, v in held.items() if k not in _INTERNAL}
            held |= {**value._parameters, **value._modules}
            for key, buffer in value._buffers.items():
                end = ", persistent=False" if key in value._non_persistent_buffers_set else ""
                text = self.spelling.of(buffer)
                self.lines.append(f"{name}.register_buffer({key!r}, {text}{end})")
        for key, each in held.items():
            try:
                text = self.spelling.of(each)
            except Unwritable:
                if key.startswith("_"):  # a cache, most likely, that fills itself again
                    continue
                raise
            plain = key.isidentifier() and not keyword.iskeyword(key)
            line = f"{name}.{key} = {text}" if plain else f"setattr({name}, {key!r}, {text})"
            if type(value).__setattr__ not in (object.__setattr__, nn.Module.__setattr__):
                base = self.sources.name(nn.Module) if is_module(value) else "object"
                line = f"{base}.__setattr__({name}, {key!r}, {text})"
            self.lines.append(line)
        return name

    def _empty(self, value: object, kind: str) -> str:
        """Return an expression for an object of the class `kind` without attributes."""
        base = next((base for base in _CONTENT if has_type(value, base)), None)
        if base is None:
            return f"{kind}.__new__({kind})"
        return f"{base.__name__}.__new__({kind}, {self.spelling.of(_PLAIN_COPY[base](value))})"

    def _fill(self, value: Any, name: str) -> None:
        """Write the statement that fills an object derived from list, dict or set."""
        for base, method in ((dict, "update"), (list, "extend"), (set, "update")):
            content = _PLAIN_COPY[base](value) if has_type(value, base) else None
            if content:
                self.lines.append(f"{base.__name__}.{method}({name}, {self.spelling.of(content)})")

    def _assign_variable(self, value: object, made: str) -> str:
        """Assign `made` to a variable named after the type of `value`; return its name."""
        stem = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(value).__name__).lower().strip("_")
        name = self.sources.reserve_name(stem, value)
        self.lines.append(f"{name} = {made}")
        self.made[id(value)] = value, name
        return name


class _NeededByDefinition(Exception):
    """Raised when a class or function needs an object that the statements of `build` make."""


class _RefersToItself(Exception):
    """Raised when an object's constructor arguments would contain the object itself."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


_PLAIN_COPY: Mapping[type, Callable[[Any], object]] = {
    int: lambda value: int.__add__(value, 0),
    float: lambda value: float.__add__(value, 0.0),
    complex: lambda value: complex.__add__(value, 0j),
    str: lambda value: "".join(str.__iter__(value)),
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
    list: lambda value: list(list.__iter__(value)),
    set: lambda value: set(set.__iter__(value)),
    dict: lambda value: dict(dict.items(value)),
}
"""Functions that return an object's content as a builtin type, whatever its class overrides."""
_CONTENT = tuple(_PLAIN_COPY)[:7]
"""Immutable types, whose content `__new__` takes."""


def _is_rebuildable(kind: type) -> bool:
    """Return whether objects of a class keep their state in attributes that source can assign."""
    return "__dict__" in dir(kind) or any("__slots__" in vars(base) for base in kind.__mro__[:-1])


def _shared_modules(module: nn.Module) -> set[int]:
    """Return the ids of the submodules that occur in `module` more than once."""
    counts = Counter(
        id(child)
        for holder in module.modules()
        for child in holder._modules.values()
        if child is not None
    )
    return {each for each, count in counts.items() if count > 1}


def _mode_statements(module: nn.Module) -> list[str]:
    """Return statements that set the mode of submodules, if it is not their parent's mode.

    `{}` is in place of the module: "{}.get_submodule('head').train(False)".
    """
    found = []
    modes = {"": module.training}
    for path, child in module.named_modules():
        around = modes[path.rpartition(".")[0]] if path else module.training
        modes[path] = child.training
        if child.training is not around:
            found.append(f"{{}}.get_submodule({path!r}).train({child.training})")
    return found


def _freeze_statements(module: nn.Module) -> list[str]:
    """Return statements that freeze parameters as in `module`, with `{}` in place of the module."""
    frozen = [name for name, p in module.named_parameters() if not p.requires_grad]
    floating = [p for p in module.parameters() if p.is_floating_point()]
    if frozen and len(frozen) == len(floating):
        return ["{}.requires_grad_(False)"]
    return [f"{{}}.get_parameter({name!r}).requires_grad_(False)" for name in frozen]


def _value_statements(module: nn.Module) -> list[str]:
    """Return statements that set parameters and buffers to their values; `{}` is the module."""
    named: list[tuple[str, str, torch.Tensor]] = [
        *(("parameter", *one) for one in module.named_parameters()),
        *(("buffer", *one) for one in module.named_buffers()),
    ]
    return [
        f"{{}}.get_{kind}({name!r}).data.copy_({literal(tensor.detach())})"
        for kind, name, tensor in named
    ]
