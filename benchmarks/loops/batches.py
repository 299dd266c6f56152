"""Training under the backend `loops` with batches of 8, 8 and 5, on models that the zoo lacks.

    python -m benchmarks.loops.batches [--only PART] [--jobs 2] [--timeout 400]

Each model of timm and transformers runs three steps in float64, in eager and compiled, in a process
of its own. A row has the largest errors of outputs and gradients against float64, in parts of the
largest element of each tensor, and the number of compiled graphs: 2 if sizes become dynamic with
the shorter batch. Rows are added to benchmarks/results/loops-batches-<torch version>.jsonl as they
come. The exit code is 1 if a model is off by more than 0.001, and by more than `NOISE` times
eager's error, or crashes.
"""

from __future__ import annotations

import argparse
import copy
import sys
from functools import partial
from importlib.metadata import version
from typing import Any

import torch

from benchmarks.loops.models import run_seeded
from benchmarks.loops.speed import RESULTS
from benchmarks.models.step import Step, distance
from benchmarks.models.vision_ops import load_torchvision
from benchmarks.server import Server
from benchmarks.zoo_table import Row
from fullgraph.compiler.lowering.prims import words
from fullgraph.compiler.private import compiled_graphs

TIMM = words(
    """
mixer_s32_224 gmlp_ti16_224 resmlp_12_224 mnasnet_small fbnetc_100 tinynet_e semnasnet_075 dla46_c
dpn48b cs3darknet_s repghostnet_050 mobilenetv1_100 mobilenetv4_conv_small starnet_s1
efficientformerv2_s0 nest_tiny coat_lite_tiny repvgg_a0 hardcorenas_a vgg11_bn
"""
)
TRANSFORMERS = words(
    """
RobertaModel XLMRobertaModel GPTBigCodeModel SqueezeBertModel RemBertModel ErnieModel MPNetModel
GPTNeoModel GPTJModel CodeGenModel FalconModel StableLmModel OlmoModel GraniteModel PersimmonModel
Starcoder2Model BioGptModel NystromformerModel CohereModel DeiTModel
"""
)
SIZES = {
    "vocab_size": 128, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 4, "intermediate_size": 64, "max_position_embeddings": 64,
    "embedding_size": 32, "true_hidden_size": 32, "intra_bottleneck_size": 16, "rotary_dim": 8,
    "attention_types": [[["global", "local"], 1]], "d_model": 32, "num_layers": 2, "ffn_dim": 64,
    "attention_heads": 4, "image_size": 32, "patch_size": 8, "input_embedding_size": 32,
    "output_embedding_size": 32, "pad_token_id": 0,
}  # fmt: skip
"""Sizes of a configuration, where it has them."""
LIMIT, NOISE, BATCHES = 1e-3, 10.0, (8, 8, 5)


def build(key: str) -> tuple[Any, torch.Tensor]:
    """Return a model without dropout in training mode, and inputs of the largest batch."""
    torch.manual_seed(0)
    library, _, name = key.partition("/")
    if library == "timm":
        load_torchvision()
        import timm

        model: Any = timm.create_model(name, num_classes=10)
        size = model.default_cfg["input_size"][-1] if model.default_cfg["fixed_input_size"] else 64
        inputs = torch.randn(max(BATCHES), 3, size, size)
    else:
        import transformers

        kind = getattr(transformers, name)
        known = kind.config_class()
        given = {name: size for name, size in SIZES.items() if hasattr(known, name)}
        model = kind(kind.config_class(**given))
        is_image = kind.main_input_name == "pixel_values"
        images = torch.randn(max(BATCHES), 3, 32, 32)
        inputs = images if is_image else torch.randint(1, 128, (max(BATCHES), 9))
    for module in model.modules():
        for attribute in ("p", "drop_prob", "dropout", "attention_dropout", "attn_dropout"):
            if isinstance(getattr(module, attribute, None), float):
                setattr(module, attribute, 0.0)
    return model.train(), inputs


def train(model: torch.nn.Module, inputs: torch.Tensor, backend: str | None) -> list[Any]:
    """Return outputs and gradients of each step."""
    torch.compiler.reset()
    function = model if backend is None else torch.compile(model, backend=backend)
    steps = (Step((model, (inputs[:batch],), {}), "training") for batch in BATCHES)
    return [run_seeded(step, function) for step in steps]


def compare(key: str, emit: object = None) -> Row:
    """Return the errors of training in eager and under `loops`, against float64."""
    import fullgraph.compiler.lowering.backend  # noqa: F401  # registers the backend
    from fullgraph.compiler.isolation import leave_fork_server

    leave_fork_server()
    torch.set_num_threads(1)
    model, inputs = build(key)
    wide = inputs.double() if inputs.is_floating_point() else inputs
    expected = train(copy.deepcopy(model).double(), wide, None)
    row: Row = {"parameters": sum(p.numel() for p in model.parameters()), "crash": None}
    for backend in ("eager", "loops"):
        compiled_before = compiled_graphs()
        actual = train(copy.deepcopy(model), inputs, None if backend == "eager" else backend)
        row["graphs"] = compiled_graphs() - compiled_before
        row[backend] = max(
            distance(one, other.double())
            for step, steps in zip(expected, actual, strict=True)
            for one, other in zip(step, steps, strict=True)
        )
    return row


def main() -> int:
    """Ask for each model; print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", metavar="PART", help="models whose key holds PART")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="models at a time")
    parser.add_argument("--timeout", type=float, default=400, metavar="S", help="for one model")
    options = parser.parse_args()
    keys = [f"timm/{name}" for name in sorted(TIMM)] + [
        f"transformers/{name}" for name in sorted(TRANSFORMERS)
    ]
    server = Server(options.timeout)
    questions = {
        key: partial(server.run, partial(compare, key)) for key in keys if options.only in key
    }
    path = RESULTS / f"loops-batches-{version('torch')}.jsonl"
    rows = server.answer_all(path, questions, _say, options.jobs)
    print("| model | parameters | loops | eager | graphs |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for key, row in sorted(rows.items()):
        print(f"| {_say(row) if row.get('crash') else _cells(key, row)} |")
    wrong = [row for row in rows.values() if row.get("crash") or _is_wrong(row)]
    return 1 if wrong else 0


def _is_wrong(row: Row) -> bool:
    return bool(row["loops"] > max(LIMIT, NOISE * row["eager"]))


def _cells(key: str, row: Row) -> str:
    errors = f"{row['loops']:.1e} | {row['eager']:.1e}"
    return f"{key} | {row['parameters'] / 1e6:.1f} M | {errors} | {row['graphs']}"


def _say(row: Row) -> str:
    if row.get("crash"):
        return f"{row['key']}: {row['crash']}"
    return f"{row['key']}: loops {row['loops']:.1e}, eager {row['eager']:.1e}"


if __name__ == "__main__":
    sys.exit(main())
