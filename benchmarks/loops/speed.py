"""The backend `loops` beside eager, aot_eager and Inductor: results, and cold and steady time.

    python -m benchmarks.loops.speed                   # every program; prints a table in Markdown
    python -m benchmarks.loops.speed "mlp, training"   # some of them

Each cell is a process of its own with empty caches. *Cold* is the time of the first call (with the
backward, in training) minus that of a later one, *steady* the shortest of later calls. *Generated*
is the share of the graphs' computing nodes that run in generated kernels; the rest are calls of
extern operators. *Error* is the largest difference from eager, over outputs and gradients, in parts
of the largest element of each tensor (at least 0.001).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.models.vision_ops import load_torchvision

BACKENDS = ("loops", "aot_eager", "inductor")
SECONDS, STEADY_SECONDS = 300, 1.0
Program = Callable[[], tuple[nn.Module, tuple[Any, ...]]]


def _mlp() -> tuple[nn.Module, tuple[Any, ...]]:
    model = nn.Sequential(
        nn.Linear(64, 256), nn.LayerNorm(256), nn.GELU(), nn.Linear(256, 32), nn.Softmax(-1)
    )
    return model, (torch.randn(128, 64),)


def _vision(name: str, batch: int, **options: Any) -> Program:
    def build() -> tuple[nn.Module, tuple[Any, ...]]:
        load_torchvision()
        import timm

        return timm.create_model(name, **options), (torch.randn(batch, 3, 64, 64),)

    return build


def _text(kind: str, **sizes: Any) -> Program:
    def build() -> tuple[nn.Module, tuple[Any, ...]]:
        load_torchvision()
        import transformers

        config = getattr(transformers, f"{kind}Config")(vocab_size=500, **sizes)
        model = getattr(transformers, f"{kind}Model")(config)
        return model, (torch.randint(0, 500, (2, 64)),)

    return build


_BERT = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256,
    "max_position_embeddings": 64,
}  # fmt: skip
PROGRAMS: dict[str, Program] = {
    "mlp": _mlp,
    "ViT": _vision("vit_tiny_patch16_224", 2, img_size=64, depth=4, embed_dim=192),
    "ConvNeXt": _vision("convnext_atto", 2, depths=(1, 1, 1, 1)),
    "ResNet": _vision("resnet10t", 2),
    "Bert": _text("Bert", **_BERT),
    "Llama": _text("Llama", **_BERT),
    "GPT2": _text("GPT2", n_embd=64, n_layer=2, n_head=4, n_positions=64),
}
CASES = [f"{name}, {mode}" for name in PROGRAMS for mode in ("inference", "training")]


def run_case(case: str, backend: str) -> dict[str, object]:
    """Run one case in this process, with eager beside it."""
    import fullgraph.compiler.lowering.backend  # noqa: F401  # registers the backend

    name, mode = case.split(", ")
    torch.manual_seed(0)
    model, inputs = PROGRAMS[name]()
    model.train(mode == "training")
    programs: list[Any] = []
    options = {"on_program": programs.append} if backend == "loops" else None
    expected = _call(model, model, inputs)
    compiled = torch.compile(model, backend=backend, options=options)  # type: ignore[arg-type]
    start = time.perf_counter()
    actual = _call(compiled, model, inputs)
    first = time.perf_counter() - start
    steady = _shortest(lambda: _call(compiled, model, inputs))
    pairs = zip(expected, actual, strict=True)
    error = max(
        float((a.detach() - e.detach()).abs().max() / e.abs().max().clamp(min=1e-3))
        for e, a in pairs
    )
    nodes = {
        (number, origin)
        for number, one in enumerate(programs)
        for step in one.plan.graph.steps
        for origin in getattr(step, "origins", ())
    }
    externs = sum(len(one.externs) for one in programs)
    return {
        "cold": first - steady,
        "steady": steady,
        "eager": _shortest(lambda: _call(model, model, inputs)),
        "error": error,
        "kernels": sum(one.kernels for one in programs),
        "externs": externs,
        "generated": len(nodes) / max(len(nodes) + externs, 1),
    }


def _call(run: Callable[..., Any], model: nn.Module, inputs: tuple[Any, ...]) -> list[torch.Tensor]:
    """Run once; return outputs, and in training the gradients."""
    torch.manual_seed(1)
    if not model.training:
        with torch.no_grad():
            return [_first(run(*inputs))]
    model.zero_grad()
    output = _first(run(*inputs))
    (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum().backward()
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return [output, *gradients]  # compiled, an output without a gradient gives zeros


def _first(output: Any) -> torch.Tensor:
    return output if isinstance(output, torch.Tensor) else output[0]


def _shortest(run: Callable[[], object]) -> float:
    times: list[float] = []
    end = time.perf_counter() + STEADY_SECONDS
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def run_fresh(case: str, backend: str) -> dict[str, Any]:
    """Run one case in a new process with empty caches."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "FULLGRAPH_CACHE_DIR": folder,
            "TORCHINDUCTOR_CACHE_DIR": folder,
        }
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.loops.speed", case, backend]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"longer than {SECONDS} s"}
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "Error" in line or "operator" in line]
        return {"failed": (lines or ["?"])[-1][:160]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(cases: list[str]) -> None:
    """Print the table, a line as soon as it is measured."""
    print("| program | error | kernels | externs | generated | eager ms |", end="")
    print("".join(f" {name} cold s | steady ms |" for name in BACKENDS))
    print("| --- " * (6 + 2 * len(BACKENDS)) + "|")
    for case in cases:
        found = {backend: run_fresh(case, backend) for backend in BACKENDS}
        ours = found["loops"]
        if "failed" in ours:
            print(f"| {case} | {ours['failed']} |", flush=True)
            continue
        row = f"| {case} | {ours['error']:.0e} | {ours['kernels']} | {ours['externs']} "
        row += f"| {ours['generated']:.0%} | {1e3 * ours['eager']:.2f} |"
        for one in found.values():
            failed = "failed" in one
            row += " – | – |" if failed else f" {one['cold']:.1f} | {1e3 * one['steady']:.2f} |"
        print(row, flush=True)


if __name__ == "__main__":
    chosen = sys.argv[1:]
    if chosen and chosen[-1] in BACKENDS:
        print(json.dumps(run_case(chosen[0], chosen[-1])))
    else:
        table(chosen or CASES)
