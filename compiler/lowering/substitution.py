"""Backends with one stage replaced by ours, to find by substitution the stage that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from fullgraph.compiler.lowering.backend import lower, tracing_decompositions
from fullgraph.compiler.lowering.partition import partition
from fullgraph.compiler.lowering.prims import lower_to_canonical
from fullgraph.compiler.private import (
    compile_with_autograd,
    compile_with_inductor,
    inductor_decompositions,
    inductor_partition,
)

Stage = Literal["decompositions", "partitioner", "code generation"]
STAGES: Mapping[str, tuple[Stage, ...]] = {
    "aot_eager_decomp_partition": ("decompositions", "partitioner"),
    "inductor": ("decompositions", "partitioner", "code generation"),
}
"""Stages that can be replaced, by backend, in the order in which they run."""


@dataclass(frozen=True)
class SubstitutedBackend:
    """Backend of torch.compile that runs as another one, with one stage replaced by ours."""

    backend: str
    stage: Stage

    @property
    def needs_inductor(self) -> bool:
        """Whether Inductor builds kernels."""
        return self.backend == "inductor" and self.stage != "code generation"

    def __call__(
        self,
        module: torch.fx.GraphModule,
        inputs: Sequence[object],
        *,
        mode: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> Callable[..., object]:
        """Compile Dynamo's graph; raises what the stages raise."""
        decompositions = tracing_decompositions() if self.stage == "decompositions" else None
        partition_fn = partition if self.stage == "partitioner" else None
        if self.backend == "inductor":
            return compile_with_inductor(
                module,
                inputs,
                mode=mode,
                options=options or {},
                decompositions=decompositions,
                partition=partition_fn,
                compile_graph=_generate if self.stage == "code generation" else None,
            )
        return compile_with_autograd(
            module,
            inputs,
            forward=_interpret,
            backward=_interpret,
            decompositions=decompositions or inductor_decompositions(),
            partition=partition_fn or inductor_partition,
        )


def _generate(graph: torch.fx.GraphModule, _: Sequence[object]) -> Callable[..., object]:
    """Compile a graph of ATen operators as `loops` does.

    Operators that loops do not have and that Inductor does not decompose are decomposed first.
    """
    return lower(lower_to_canonical(graph)).code.load()


def _interpret(graph: torch.fx.GraphModule, _: Sequence[object]) -> Callable[..., object]:
    """Return a function of a list of arguments that runs a graph by eager's operators."""
    return lambda args: graph(*args)
