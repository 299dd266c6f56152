"""The rungs from eager to Inductor, each adding one stage, and every other backend beside them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from fullgraph.compiler.errors import FullgraphError

Backend = str | Callable[..., Any]


@dataclass(frozen=True)
class Rung:
    """One depth of compilation."""

    name: str
    backend: Backend | None
    """What torch.compile is given; None for plain eager."""
    adds: str
    """The stage it adds to the rung below, in a few words."""
    mode: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    fullgraph: bool = False

    @property
    def needs_inductor(self) -> bool:
        """Whether Inductor builds something on it."""
        return self.backend == "inductor"


RUNGS = (
    Rung("eager", None, "nothing: plain Python"),
    Rung("dynamo", "eager", "TorchDynamo's capture: bytecode to graph, guards, graph breaks"),
    Rung("aot_eager", "aot_eager", "AOTAutograd: functionalization, joint forward and backward"),
    Rung(
        "aot_eager_decomp_partition",
        "aot_eager_decomp_partition",
        "Inductor's decompositions and the min-cut partitioner",
    ),
    Rung("inductor", "inductor", "Inductor: lowering, fusion, generated kernels"),
)
"""From the least to the most that is done to a program."""


def ladder(
    backend: Backend = "inductor",
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> tuple[Rung, ...]:
    """The rungs up to `backend`, eager first; `mode` and `options` are one more on top.

    Any registered backend or callable can be the top, on Dynamo's rung, and on AOTAutograd's
    where its name says that it stands on that. Raises FullgraphError for an unknown name.
    """
    found = resolve(backend)
    below = [rung.backend for rung in RUNGS]
    if found in below:
        rungs = RUNGS[: below.index(found) + 1]
    else:
        aot = isinstance(found, str) and found.startswith("aot_")
        name = found if isinstance(found, str) else getattr(found, "__name__", "backend")
        rungs = (*RUNGS[: 3 if aot else 2], Rung(name, found, f"the backend {name}"))
    if mode is None and not options:
        return rungs
    top = rungs[-1]
    extra = mode or ", ".join(f"{key}={value}" for key, value in (options or {}).items())
    return (
        *rungs,
        Rung(f"{top.name} ({extra})", top.backend, extra, mode=mode, options=options or {}),
    )


def backends() -> tuple[tuple[str, str], ...]:
    """Every backend torch.compile accepts by name, and what it does: rungs first, in order."""
    known = {rung.backend: rung.adds for rung in RUNGS if isinstance(rung.backend, str)}
    others = sorted(set(torch.compiler.list_backends(exclude_tags=None)) - set(known))
    return (*known.items(), *((name, _first_sentence(name)) for name in others))


def resolve(backend: Backend) -> Backend:
    """What to give torch.compile for a backend, a rung's name or a callable.

    Raises FullgraphError, with the names there are, for one that does not exist.
    """
    if not isinstance(backend, str):
        if callable(backend):
            return backend
        raise FullgraphError(
            f"backend must be a name or a callable, not {type(backend).__name__}; "
            "`fullgraph backends` lists the names."
        )
    if backend == "dynamo":
        return "eager"
    names = [name for name, _ in backends()]
    if backend in names:
        return backend
    raise FullgraphError(
        f"There is no backend named {backend!r}; `fullgraph backends` lists the "
        f"{len(names)} there are: {', '.join(names[:5])}, …"
    )


def _first_sentence(name: str) -> str:
    """What a backend's own documentation says first; "" where it says nothing."""
    from fullgraph.compiler.private import find_backend

    doc = inspect.getdoc(find_backend(name)) or ""
    return " ".join(doc.partition("\n\n")[0].split()).partition(". ")[0]
