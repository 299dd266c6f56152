"""Networks of diffusers with tiny configs, and scheduler steps wrapped in modules."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.models.entry import Built, Entry

BLOCKS: dict[str, Any] = {
    "block_out_channels": (8, 16),
    "norm_num_groups": 4,
    "layers_per_block": 1,
}
UNET: dict[str, Any] = {
    **BLOCKS,
    "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
    "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
    "attention_head_dim": 4,
}
CONDITIONED: dict[str, Any] = {
    **BLOCKS,
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "cross_attention_dim": 16,
    "attention_head_dim": 4,
}
AUTOENCODER: dict[str, Any] = {
    **BLOCKS,
    "down_block_types": ("DownEncoderBlock2D", "DownEncoderBlock2D"),
    "up_block_types": ("UpDecoderBlock2D", "UpDecoderBlock2D"),
}
TRANSFORMER: dict[str, Any] = {"num_layers": 1, "attention_head_dim": 8, "num_attention_heads": 2}


def _image(channels: int = 3, size: int = 16) -> torch.Tensor:
    return torch.randn(1, channels, size, size)


def _noisy_image() -> dict[str, Any]:
    return {"sample": _image(), "timestep": torch.tensor([10])}


def _conditioned() -> dict[str, Any]:
    text = torch.randn(1, 4, 16)
    return {"sample": _image(4), "timestep": torch.tensor([10]), "encoder_hidden_states": text}


def _plain() -> dict[str, Any]:
    return {"sample": _image()}


def _classes() -> dict[str, Any]:
    return {
        "hidden_states": _image(4, 8),
        "timestep": torch.tensor([10]),
        "class_labels": torch.tensor([3]),
    }


def _flux() -> dict[str, Any]:
    return {
        "hidden_states": torch.randn(1, 16, 4),
        "encoder_hidden_states": torch.randn(1, 4, 16),
        "pooled_projections": torch.randn(1, 16),
        "timestep": torch.tensor([0.5]),
        "img_ids": torch.zeros(16, 3),
        "txt_ids": torch.zeros(4, 3),
    }


NETWORKS: tuple[tuple[str, dict[str, Any], Callable[[], dict[str, Any]]], ...] = (
    ("UNet2DModel", UNET, _noisy_image),
    ("UNet2DConditionModel", CONDITIONED, _conditioned),
    ("AutoencoderKL", AUTOENCODER, _plain),
    ("VQModel", {**AUTOENCODER, "num_vq_embeddings": 16}, _plain),
    (
        "AutoencoderTiny",
        {
            "encoder_block_out_channels": (8, 8),
            "decoder_block_out_channels": (8, 8),
            "num_encoder_blocks": (1, 1),
            "num_decoder_blocks": (1, 1),
        },
        _plain,
    ),
    ("DiTTransformer2DModel", {**TRANSFORMER, "sample_size": 8, "norm_num_groups": 4}, _classes),
    (
        "FluxTransformer2DModel",
        {
            **TRANSFORMER,
            "in_channels": 4,
            "num_single_layers": 1,
            "joint_attention_dim": 16,
            "pooled_projection_dim": 16,
            "axes_dims_rope": (2, 2, 4),
        },
        _flux,
    ),
)

SCHEDULERS = (
    "DDPMScheduler",
    "DDIMScheduler",
    "DPMSolverMultistepScheduler",
    "EulerDiscreteScheduler",
    "FlowMatchEulerDiscreteScheduler",
    "HeunDiscreteScheduler",
    "PNDMScheduler",
    "UniPCMultistepScheduler",
)


class Step(nn.Module):
    """One denoising step, as a pipeline's loop takes it."""

    def __init__(self, scheduler: Any) -> None:
        super().__init__()
        self.scheduler = scheduler

    def forward(self, output: torch.Tensor, timestep: Any, sample: torch.Tensor) -> torch.Tensor:
        return self.scheduler.step(output, timestep, sample, return_dict=False)[0]


def _network(name: str, config: dict[str, Any], inputs: Callable[[], dict[str, Any]]) -> Built:
    import diffusers

    return getattr(diffusers, name)(**config).eval(), (), inputs()


def _step(name: str) -> Built:
    import diffusers

    scheduler = getattr(diffusers, name)()
    scheduler.set_timesteps(10)
    return Step(scheduler), (_image(), scheduler.timesteps[0], _image()), {}


ENTRIES = (
    *(Entry("diffusers", row[0], partial(_network, *row)) for row in NETWORKS),
    *(Entry("diffusers", f"{name}.step", partial(_step, name)) for name in SCHEDULERS),
)
