"""The program that `bisect` or `minify` examines: the call, its inputs, its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from fullgraph.compiler.ladder import Rung
from fullgraph.compiler.numerics import Tolerance
from fullgraph.compiler.results import Loss
from fullgraph.minifier.oracle.failure import Kind


@dataclass(frozen=True, eq=False)
class Case:
    """A callable with its inputs, and what counts as a failure of its compiled form."""

    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    loss: Loss = None
    dynamic: bool | None = None
    tol: float | None = None
    """Relative and absolute tolerance; None: by dtype."""
    strides: bool = True
    """Whether an output with other strides or aliases than in eager counts as a failure."""
    calls: int = 1
    """How often it is called before results are compared; some failures need a second call."""
    earlier: tuple[tuple[tuple[Any, ...], Mapping[str, Any]], ...] = ()
    """Positional and keyword arguments of other calls, which come before."""
    wanted: Kind | None = None
    """The kind of failure to look for, such as BREAK, RECOMPILE or SLOW; None: any kind."""

    @property
    def tolerance(self) -> Tolerance | None:
        """The user's tolerance; None: by dtype."""
        return None if self.tol is None else Tolerance(self.tol, self.tol)

    @property
    def module(self) -> torch.nn.Module | None:
        return self.target if isinstance(self.target, torch.nn.Module) else None

    @property
    def objects(self) -> tuple[Any, ...]:
        return (self.target, self.args, self.kwargs, self.earlier)

    def compiled(self, rung: Rung) -> Callable[..., Any]:
        """Return the target compiled for `rung`; the target itself for eager."""
        if rung.backend is None:
            return self.target
        return torch.compile(
            self.target,
            backend=rung.backend,
            dynamic=self.dynamic,
            fullgraph=rung.fullgraph,
            mode=rung.mode,
            options=dict(rung.options) if rung.options else None,
        )
