"""A copy of a module or function that runs edited source, beside the original."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any

import torch

from fullgraph.compiler.overlay import overlaid
from fullgraph.compiler.recode import live


def patched(subject: Any, texts: Mapping[str, str]) -> Any:
    """`subject` as if the files of `texts` (by path) held these texts.

    A module becomes a copy of the same tree that shares parameters and buffers, its classes
    replaced by subclasses with the edited methods; a function becomes a new one. Everything else
    of the program goes on running the original.
    """
    with overlaid(texts):
        codes = {f: f.__code__ for functions in live(texts).values() for f in functions}
    edited = {f: code for f, code in codes.items() if f.__code__ is not code}
    namespaces = _namespaces(edited, texts)
    if isinstance(subject, torch.nn.Module):
        return _module(subject, edited, namespaces, {})
    if isinstance(subject, FunctionType):
        return _function(subject, edited.get(subject, subject.__code__), namespaces)
    return subject


Namespaces = dict[int, dict[str, Any]]


def _namespaces(edited: Mapping[FunctionType, CodeType], texts: Mapping[str, str]) -> Namespaces:
    """For the globals of every edited file, a copy in which names mean the edited functions."""
    namespaces: Namespaces = {}
    for function in edited:
        namespaces.setdefault(id(function.__globals__), dict(function.__globals__))
    with overlaid(texts):
        for function in edited:
            here = namespaces[id(function.__globals__)]
            here.update((k, v) for k, v in function.__globals__.items() if k not in here)
    for module in tuple(sys.modules.values()):
        space = namespaces.get(id(getattr(module, "__dict__", None)))
        for name, value in (space or {}).items():
            if isinstance(value, FunctionType) and value in edited and space is not None:
                space[name] = _function(value, edited[value], namespaces)
    return namespaces


def _function(function: FunctionType, code: CodeType, namespaces: Namespaces) -> FunctionType:
    space = namespaces.get(id(function.__globals__), function.__globals__)
    copy = FunctionType(code, space, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__dict__.update(function.__dict__)
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    return copy


def _module(
    module: torch.nn.Module,
    edited: Mapping[FunctionType, CodeType],
    namespaces: Namespaces,
    done: dict[int, torch.nn.Module],
) -> torch.nn.Module:
    """A shallow copy of a module with patched children and class."""
    if id(module) in done:
        return done[id(module)]
    copy = done[id(module)] = module.__new__(type(module))
    vars(copy).update(vars(module))
    copy._modules = {
        name: child if child is None else _module(child, edited, namespaces, done)
        for name, child in module._modules.items()
    }
    methods: dict[str, Any] = {}
    for kind in reversed(type(module).__mro__):
        for name, value in vars(kind).items():
            plain = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            methods.pop(name, None)
            if isinstance(plain, FunctionType) and id(plain.__globals__) in namespaces:
                new = _function(plain, edited.get(plain, plain.__code__), namespaces)
                methods[name] = new if plain is value else type(value)(new)
    if methods:
        kind = type(module)
        copy.__class__ = type(kind.__name__, (kind,), {"__module__": kind.__module__, **methods})
    return copy
