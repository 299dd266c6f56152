"""The ladder of compile depths from eager to Inductor, and the backends beside it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.private import find_backend

Backend = str | Callable[..., object]
CompileOptions = Mapping[str, str | int | bool | Callable[..., object]]
"""The `options` of torch.compile."""


@dataclass(frozen=True)
class Rung:
    """A compile depth on the ladder, such as "aot_eager", with its arguments of torch.compile."""

    name: str
    backend: Backend | None
    """The `backend` of torch.compile; None for eager."""
    adds: str
    """Description of the stage that this rung adds to the rung below."""
    mode: str | None = None
    options: CompileOptions = field(default_factory=dict)
    fullgraph: bool = False

    @property
    def needs_inductor(self) -> bool:
        """Whether Inductor builds kernels on this rung; a callable backend says so itself."""
        return self.backend == "inductor" or getattr(self.backend, "needs_inductor", False)


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
"""From the fewest stages to the most."""
LOOPS = Rung(
    "loops", "loops", "beside Inductor: our own decompositions, partitioner, fusion, kernels"
)
"""The side rung: it follows on AOTAutograd, and shares no later stage with Inductor."""


def ladder(
    backend: Backend = "inductor",
    *,
    mode: str | None = None,
    options: CompileOptions | None = None,
) -> tuple[Rung, ...]:
    """Return the rungs up to `backend`, eager first; a mode or options add one more rung on top.

    Any registered backend or callable can be the top rung. It follows on the rung of Dynamo;
    `loops` and a backend whose name begins with "aot_" follow on the rung of AOTAutograd. Raises
    FullgraphError for an unknown name.
    """
    resolved = resolve_backend(backend)
    known = [rung.backend for rung in RUNGS]
    if resolved in known:
        rungs = RUNGS[: known.index(resolved) + 1]
    else:
        name = resolved if isinstance(resolved, str) else _name_of_function(resolved)
        below = RUNGS[: 3 if follows_autograd(resolved) else 2]
        top = Rung(name, resolved, f"the backend {name}")
        rungs = (*below, LOOPS if resolved == LOOPS.backend else top)
    if mode is None and not options:
        return rungs
    top = rungs[-1]
    extra = mode or ", ".join(f"{key}={value}" for key, value in (options or {}).items())
    return (
        *rungs,
        Rung(f"{top.name} ({extra})", top.backend, extra, mode=mode, options=options or {}),
    )


def _name_of_function(backend: object) -> str:
    """Return a name for a backend that is a function: its own, unless it is taken or is none."""
    name = str(getattr(backend, "__name__", ""))
    taken = {*torch.compiler.list_backends(exclude_tags=None)}
    taken |= {rung.name for rung in (*RUNGS, LOOPS)}
    if not name.isidentifier():
        return "backend"
    return f"{name}_backend" if name in taken else name


def follows_autograd(backend: Backend) -> bool:
    """Return whether a backend that is not in `RUNGS` follows on the rung of AOTAutograd."""
    return isinstance(backend, str) and (backend.startswith("aot_") or backend == LOOPS.backend)


def find_side_rung() -> Rung | None:
    """Return the rung `loops`; None if there is no C++ compiler to build its kernels."""
    from fullgraph.compiler.lowering.cpp import find_compiler

    _register_loops()
    return LOOPS if find_compiler() else None


def list_backends() -> tuple[tuple[str, str], ...]:
    """Return (name, purpose) for each registered backend; those on the ladder come first."""
    known = {rung.backend: rung.adds for rung in (*RUNGS, LOOPS) if isinstance(rung.backend, str)}
    others = sorted(set(torch.compiler.list_backends(exclude_tags=None)) - set(known))
    return (*known.items(), *((name, _first_sentence(name)) for name in others))


def resolve_backend(backend: Backend) -> Backend:
    """Return `backend` as torch.compile takes it: "eager" for the rung "dynamo".

    Any other backend is returned unchanged. Raises FullgraphError for an unknown name; the message
    lists the known ones.
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
    if backend == LOOPS.backend:
        _register_loops()
    if backend in {rung.backend for rung in (*RUNGS, LOOPS)}:
        return backend  # listing the others imports them all
    names = [name for name, _ in list_backends()]
    if backend in names:
        return backend
    raise FullgraphError(f"There is no backend named {backend!r}; there are {', '.join(names)}.")


def _register_loops() -> None:
    """Register the backend `loops`, which torch finds only where this package is installed."""
    import fullgraph.compiler.lowering.backend  # noqa: F401


def _first_sentence(name: str) -> str:
    """Return the first sentence of a backend's docstring; "" if it has none."""
    doc = inspect.getdoc(find_backend(name)) or ""
    return " ".join(doc.partition("\n\n")[0].split()).partition(". ")[0]
