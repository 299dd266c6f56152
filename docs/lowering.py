"""One function through every stage of the backend `loops`, printed as each stage prints itself.

python docs/lowering.py            writes docs/lowering.md
python docs/lowering.py --check    exit code 1 if it is out of date
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.fx import GraphModule

from fullgraph.compiler.lowering.backend import lower
from fullgraph.compiler.lowering.fusion import fuse
from fullgraph.compiler.lowering.ir import trace_loops
from fullgraph.compiler.lowering.partition import plan_partition, split
from fullgraph.compiler.lowering.prims import decompositions, lower_to_prims
from fullgraph.compiler.lowering.runtime import Program
from fullgraph.compiler.private import compile_with_autograd

PAGE = Path(__file__).parent / "lowering.md"

HEAD = """\
# One function through the stages of `loops`

Printed by `docs/lowering.py` from a real run of `torch.compile(rms_norm, backend="loops")`. Each
stage is a function from one plain value to the next: call it, print its result, or pass another."""
SECTIONS = (
    ("The function", "Called with `x` of 8 × 64 and `weight` of 64.", "python", "source"),
    (
        "Capture",
        "TorchDynamo's graph, as every backend gets it.",
        "python",
        "captured",
    ),
    (
        "Joint graph",
        "AOTAutograd traces forward and backward together, with the decompositions of `prims` into "
        "canonical ATen operators.",
        "python",
        "joint",
    ),
    (
        "Partition",
        "`partition.plan_partition(joint, 1)`: a minimum cut says what the forward saves.",
        "text",
        "plan",
    ),
    ("Forward", "`partition.split(joint, plan, 1)` gives the forward …", "python", "forward"),
    ("Backward", "… and the backward.", "python", "backward"),
    (
        "Prims",
        "`prims.lower_to_prims(forward)`: the second tier, for backends that want a closed set. "
        "The next stages take canonical operators.",
        "python",
        "prims",
    ),
    (
        "Loops",
        "`ir.trace_loops(forward)`: a loop for each result, views as index arithmetic.",
        "text",
        "loops",
    ),
    (
        "Fusion",
        "`fusion.fuse(loops)`: the loops of a kernel share one loop nest. `outer` runs once an "
        "outer iteration, `inner` once an inner one.",
        "text",
        "fused",
    ),
    ("C++", "`cpp.write_kernel(kernel, …)`; g++ needs no header for it.", "cpp", "cpp"),
    (
        "Triton",
        "`triton.write_kernel(kernel, …)`, for a graph on a GPU "
        "([figures of an H200](../benchmarks/results/loops-cuda-0368d9a.md)).",
        "python",
        "triton",
    ),
    ("Program", "`runtime.make_program(plan, CPP).source` runs it.", "python", "program"),
)


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    mean = (x * x).mean(-1, keepdim=True)
    return torch.nn.functional.silu(x * (mean + 1e-6).rsqrt()) * weight


class Walk:
    """A backend that keeps what each stage returns."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}

    def __call__(self, module: GraphModule, inputs: Sequence[torch.Tensor]) -> object:
        self.parts["captured"] = code(module)
        return compile_with_autograd(
            module,
            inputs,
            forward=self._compile,
            backward=lambda graph, _: lower(graph).code.load(),
            decompositions={**decompositions()},
            partition=self._partition,
        )

    def _partition(
        self, joint: GraphModule, _: object, *, num_fwd_outputs: int, **options: object
    ) -> tuple[GraphModule, GraphModule]:
        self.parts["joint"] = code(joint)
        plan = plan_partition(joint, num_fwd_outputs)
        self.parts["plan"] = str(plan)
        forward, backward = split(joint, plan, num_fwd_outputs)
        self.parts["forward"], self.parts["backward"] = code(forward), code(backward)
        return forward, backward

    def _compile(self, graph: GraphModule, _: Sequence[object]) -> object:
        self.parts["prims"] = code(lower_to_prims(graph))
        loops = trace_loops(graph)
        self.parts["loops"], self.parts["fused"] = str(loops), str(fuse(loops))
        program = lower(graph)
        self.parts["program"] = program.source
        self.parts["cpp"] = kernels(program)
        self.parts["triton"] = kernels(lower(graph, "triton"))
        return program.code.load()


def code(module: GraphModule) -> str:
    """Return a graph as Python, one call a line, without what frees its variables."""
    text = re.sub(r";  [^\n]*= None", "", module.code.strip())
    text = re.sub(r"torch\.ops\.(aten|prims)\.", r"\1.", text)
    return text.replace("torch.fx._pytree.", "pytree.")


def kernels(program: Program) -> str:
    """Return the text of a program's kernels."""
    return "\n\n".join(kernel.text for kernel in program.code.kernels)


def write_page() -> str:
    """Return the page."""
    walk = Walk()
    x = torch.randn(8, 64, requires_grad=True)
    weight = torch.randn(64, requires_grad=True)
    torch.compile(rms_norm, backend=walk)(x, weight).sum().backward()
    parts = {"source": inspect.getsource(rms_norm), **walk.parts}
    sections = [
        f"## {title}\n\n{text}\n\n```{language}\n{parts[key].strip()}\n```"
        for title, text, language, key in SECTIONS
    ]
    return "\n\n".join([HEAD, *sections]) + "\n"


def main() -> int:
    """Write the page, or compare it with the one on disk."""
    text = write_page()
    if "--check" in sys.argv:
        return int(PAGE.read_text() != text)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
