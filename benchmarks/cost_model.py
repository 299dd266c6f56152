"""The cost model against Inductor on this CPU: kernel counts, and the order of times.

    python -m benchmarks.cost_model small    # about twenty graphs: kernels and calls of libraries
    python -m benchmarks.cost_model models   # about thirty tiny models: predicted and measured time

*Kernels* are Inductor's scheduled loops after fusion, one a C++ loop nest. *Generated* is
`torch._inductor.metrics.generated_kernel_count`, which on CPU counts also the loops inside an
outer loop, and their vectorised and scalar versions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch._inductor.metrics as metrics
import torch.nn.functional as F
from torch._inductor.compile_fx import compile_fx
from torch._inductor.ir import MultiOutput
from torch._inductor.scheduler import ExternKernelSchedulerNode, NopKernelSchedulerNode, Scheduler

from benchmarks.models.vision_ops import load_torchvision
from fullgraph.compiler.lowering.cost import add_costs, find_device, graph_cost

Example = tuple[Callable[..., object], tuple[object, ...]]
REPEATS, SECONDS = 200, 1.0


@dataclass(frozen=True)
class Row:
    """One program: what was predicted, and what Inductor did."""

    name: str
    kernels: tuple[int, int]
    externs: tuple[int, int]
    """Predicted and counted."""
    generated: int
    seconds: tuple[float, float]
    """Predicted and measured."""
    estimation: float
    """Seconds that the estimate took."""
    unknown: tuple[str, ...]


def small_programs() -> dict[str, Example]:
    """Return the programs of the table of kernel counts."""
    torch.manual_seed(0)
    x, y, w = torch.randn(64, 128), torch.randn(64, 128), torch.randn(128, 128)
    image, convolution = torch.randn(2, 8, 16, 16), torch.nn.Conv2d(8, 8, 3, padding=1)
    norm, group = torch.nn.BatchNorm2d(8).eval(), torch.nn.GroupNorm(2, 8)
    q = torch.randn(2, 4, 16, 32)
    index = torch.randint(0, 64, (32,))
    return {
        "pointwise chain": (lambda: (x.relu() + 1).sin() * y, ()),
        "two unrelated": (lambda: (x + 1, y * 2), ()),
        "shared operand": (lambda: (x + 1, x * 2), ()),
        "bias, gelu": (lambda: F.gelu(x + w[0]), ()),
        "softmax, rows": (lambda: x.softmax(-1), ()),
        "softmax, columns": (lambda: x.softmax(0), ()),
        "layer norm": (lambda: F.layer_norm(x + y, (128,)), ()),
        "rms norm": (lambda: x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt(), ()),
        "sum, scaled": (lambda: x.sum() * 2 + 1, ()),
        "sums of both dims": (lambda: (x.sum(0), x.sum(1)), ()),
        "max and sum": (lambda: (x.amax(1), x.sum(1)), ()),
        "x over its norm": (lambda: x / x.norm(), ()),
        "product, relu": (lambda: (x @ w).relu() + 1, ()),
        "two products": (lambda: F.gelu(x @ w) @ w, ()),
        "product, softmax": (lambda: (x @ w).softmax(-1), ()),
        "transposed": (lambda: (x * 2).t().contiguous() + 1, ()),
        "cat": (lambda: torch.cat([x.relu(), y + 1], 1) * 2, ()),
        "embedding": (lambda: F.embedding(index, x) * 2, ()),
        "convolution, norm, relu": (lambda: norm(convolution(image)).relu(), ()),
        "group norm, silu": (lambda: F.silu(group(image)), ()),
        "pooling": (lambda: F.max_pool2d(image.relu(), 2) + 1, ()),
        "attention": (lambda: F.scaled_dot_product_attention(q, q, q).transpose(1, 2) + 1, ()),
        "cross entropy": (lambda: F.cross_entropy(x, index.repeat(2)), ()),
        "cumsum": (lambda: (x + 1).cumsum(0) * 2, ()),
    }


def tiny_models() -> Iterator[tuple[str, Example]]:
    """Yield the programs of the table of times."""
    load_torchvision()
    import timm
    import transformers as hf
    from timm.models.mlp_mixer import MlpMixer

    def vision(name: str, size: int, batch: int, **options: object) -> tuple[str, Example]:
        model = timm.create_model(name, **options).eval()
        return f"{name} {size} × {batch}", (model, (torch.randn(batch, 3, size, size),))

    for width, depth, size, batch in (
        (48, 1, 64, 1),
        (96, 2, 64, 4),
        (192, 2, 128, 4),
        (384, 2, 224, 1),
    ):
        options = {"embed_dim": width, "depth": depth, "num_heads": 3, "img_size": size}
        yield vision("vit_tiny_patch16_224", size, batch, **options)
        yield vision("deit_tiny_patch16_224", size, 2 * batch, **options)
    for size, batch, dims in (
        (32, 1, (16, 32, 48, 64)),
        (64, 2, (24, 48, 64, 96)),
        (96, 4, (40, 80, 96, 128)),
    ):
        yield vision("convnext_atto", size, batch, depths=(1, 1, 1, 1), dims=dims)
    for size, batch, channels in (
        (32, 1, (8, 16, 32, 64)),
        (64, 4, (32, 64, 128, 256)),
        (128, 2, (16, 32, 64, 128)),
    ):
        yield vision("resnet10t", size, batch, channels=channels, layers=(1, 1, 1, 1))
    for width, size, batch in ((32, 64, 1), (64, 128, 4), (128, 224, 1)):
        mixer = MlpMixer(img_size=size, num_blocks=2, embed_dim=width).eval()
        images = torch.randn(batch, 3, size, size)
        yield f"MlpMixer {width}, {size} × {batch}", (mixer, (images,))

    def text(kind: str, config: str, width: int, length: int, batch: int) -> tuple[str, Example]:
        sizes = {
            "hidden_size": width, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 4 * width, "vocab_size": 500, "max_position_embeddings": 512,
            "num_key_value_heads": 4,
        }  # fmt: skip
        settings = getattr(hf, config)(**sizes)
        model = getattr(hf, kind)(settings).eval()
        tokens = torch.randint(0, 500, (batch, length))
        return f"{kind} {width}, {batch} × {length}", (model, (tokens,))

    for width, length, batch in ((32, 16, 1), (64, 128, 2), (256, 128, 4)):
        yield text("BertModel", "BertConfig", width, length, batch)
        yield text("LlamaModel", "LlamaConfig", width, length, batch)
    for kind in ("GPTNeoXModel", "RobertaModel", "ElectraModel", "MistralModel", "Qwen2Model"):
        config = kind.replace("Model", "Config")
        yield text(kind, config, 128, 64, 2)


def compare(name: str, example: Example) -> Row:
    """Predict the cost of a program, compile it with Inductor, and time it."""
    function, args = example
    cpu = find_device()
    costs, took, counted = [], [], [0, 0]

    def backend(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        start = time.perf_counter()
        costs.append(graph_cost(module, cpu))
        took.append(time.perf_counter() - start)
        return compile_fx(module, inputs)

    codegen = Scheduler.codegen

    def count_nodes(scheduler: Scheduler) -> None:
        for node in scheduler.nodes:
            is_part = isinstance(node.node, MultiOutput)  # of a call with several results
            if not isinstance(node, NopKernelSchedulerNode) and not is_part:
                counted[isinstance(node, ExternKernelSchedulerNode)] += 1
        codegen(scheduler)

    torch.compiler.reset()
    metrics.reset()
    Scheduler.codegen = count_nodes  # type: ignore[method-assign]
    try:
        with torch.no_grad(), torch._inductor.config.patch(force_disable_caches=True):
            compiled = torch.compile(function, backend=backend, dynamic=False)
            compiled(*args)
            generated = metrics.generated_kernel_count
            measured = _shortest_seconds(lambda: compiled(*args))
    finally:
        Scheduler.codegen = codegen  # type: ignore[method-assign]
    cost = add_costs(costs)
    return Row(
        name,
        (cost.kernels, counted[0]),
        (cost.externs, counted[1]),
        generated,
        (cost.seconds, measured),
        sum(took),
        cost.unknown,
    )


def _shortest_seconds(run: Callable[[], object]) -> float:
    """Return the shortest time of many calls: the machine may be shared."""
    times = []
    end = time.perf_counter() + SECONDS
    while len(times) < REPEATS and (len(times) < 5 or time.perf_counter() < end):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def rank_correlation(pairs: list[tuple[float, float]]) -> float:
    """Return Spearman's rank correlation."""
    columns = torch.tensor(pairs, dtype=torch.float64).t()
    ranks = columns.argsort(dim=1).argsort(dim=1).double()
    return float(torch.corrcoef(ranks)[0, 1])


HEADER = """\
| program | kernels, predicted | Inductor | externs, predicted | Inductor | generated \
| predicted µs | measured µs | estimated in ms |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"""


def main() -> None:
    """Print a table as Markdown."""
    programs = tiny_models() if sys.argv[1:] == ["models"] else iter(small_programs().items())
    torch.set_num_threads(1)  # a second thread waits where the machine is shared
    rows = []
    print(HEADER)
    for name, example in programs:
        try:
            row = compare(name, example)
        except Exception as error:
            print(f"| {name} | {type(error).__name__}: {str(error)[:80]!r} |", flush=True)
            continue
        rows.append(row)
        figures = (*row.kernels, *row.externs, row.generated)
        times = (f"{1e6 * s:.1f}" for s in row.seconds)
        estimation = f"{1e3 * row.estimation:.1f}"
        cells = (row.name, *map(str, figures), *times, estimation, *row.unknown)
        print(f"| {' | '.join(cells)} |", flush=True)
    exact = sum(row.kernels[0] == row.kernels[1] for row in rows)
    externs = sum(row.externs[0] == row.externs[1] for row in rows)
    print(f"\nKernels exact: {exact} of {len(rows)}; externs exact: {externs} of {len(rows)}.")
    print(f"Rank correlation of times: {rank_correlation([row.seconds for row in rows]):.3f}.")


if __name__ == "__main__":
    main()
