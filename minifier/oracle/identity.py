"""Ids of reductions and texts, by which an interrupted reduction is found again."""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import torch

from fullgraph.compiler.ladder import Rung
from fullgraph.compiler.private import non_default_config, tree_leaves
from fullgraph.minifier.oracle.case import Case


def reduction_id(case: Case, rungs: Sequence[Rung]) -> str:
    """Return an id that is equal whenever `minify` is called for the same program and settings."""
    target = case.target
    kind = type(target) if isinstance(target, torch.nn.Module) else target
    state = case.module.state_dict() if case.module else {}
    calls = [(args, dict(kwargs)) for args, kwargs in case.earlier]
    leaves = tree_leaves((case.args, dict(case.kwargs), calls, list(state.values())))
    told = [
        str(getattr(kind, "__module__", "")),  # None for a function that `exec` has made
        str(getattr(kind, "__qualname__", "")),
        _source_file_text(kind),
        repr([(x.shape, x.dtype) if isinstance(x, torch.Tensor) else type(x) for x in leaves]),
        repr([(rung.name, str(rung.options)) for rung in rungs]),
        repr((case.dynamic, case.tol, case.strides, case.wanted, bool(case.loss))),
        repr(sorted((name, _stable_text(value)) for name, value in non_default_config().items())),
        torch.__version__,
        importlib.metadata.version("fullgraph"),
    ]
    return digest("\n".join(told))


def _stable_text(value: object) -> str:
    """Return the value of a setting as text that is the same in every process."""
    return getattr(value, "__qualname__", "") or re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def digest(text: str) -> str:
    """Return a short hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _source_file_text(thing: object) -> str:
    """Return the text of the file that defines a class or function; "" if there is none."""
    with suppress(TypeError, OSError):
        return Path(inspect.getfile(thing)).read_text(errors="replace")  # type: ignore[arg-type]
    return ""
