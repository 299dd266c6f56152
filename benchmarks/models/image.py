"""Models of timm: one small variant of each family, on small images."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from benchmarks.models.entry import Built, Entry

MODELS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("beit_base_patch16_224", 64, {"img_size": 64, "embed_dim": 48, "depth": 2, "num_heads": 4}),
    ("gcresnet33ts", 64, {"img_size": 64}),
    ("cait_xxs24_224", 64, {"img_size": 64, "depth": 2}),
    ("convit_tiny", 64, {"img_size": 64, "depth": 2}),
    ("convnext_atto", 64, {"depths": (1, 1, 1, 1)}),
    ("convnextv2_atto", 64, {"depths": (1, 1, 1, 1)}),
    ("crossvit_tiny_240", 240, {"img_size": 240}),
    ("cs3darknet_focus_s", 64, {}),
    ("davit_tiny", 64, {"depths": (1, 1, 1, 1)}),
    ("deit_tiny_distilled_patch16_224", 64, {"img_size": 64, "depth": 2}),
    ("densenet121", 64, {"block_config": (2, 2, 2, 2)}),
    ("edgenext_xx_small", 64, {}),
    ("efficientnet_b0", 64, {}),
    ("mobilenetv2_050", 64, {}),
    ("efficientvit_b0", 64, {}),
    ("eva02_tiny_patch14_224", 56, {"img_size": 56, "depth": 2}),
    ("fasternet_t0", 64, {}),
    ("fastvit_t8", 64, {}),
    ("gcvit_xxtiny", 224, {"img_size": 224}),
    ("ghostnet_050", 64, {}),
    ("hgnetv2_b0", 64, {}),
    ("hiera_tiny_224", 224, {"img_size": 224}),
    ("hrnet_w18_small", 64, {}),
    ("inception_next_atto", 64, {}),
    ("inception_v3", 96, {}),
    ("levit_128s", 224, {"img_size": 224}),
    ("mambaout_femto", 64, {}),
    ("coatnet_nano_rw_224", 224, {"img_size": 224}),
    ("poolformer_s12", 64, {}),
    ("mobilenetv3_small_050", 64, {}),
    ("lcnet_035", 64, {}),
    ("mobilevit_xxs", 64, {"img_size": 64}),
    ("mobilevitv2_050", 64, {"img_size": 64}),
    ("nf_resnet26", 64, {}),
    ("pit_ti_224", 224, {"img_size": 224}),
    ("pvt_v2_b0", 64, {}),
    ("rdnet_tiny", 64, {}),
    ("regnetx_002", 64, {}),
    ("repvit_m0_9", 64, {"img_size": 64}),
    ("res2net50_26w_4s", 64, {"layers": (1, 1, 1, 1)}),
    ("resnest14d", 64, {}),
    ("resnet10t", 64, {}),
    ("resnet18", 64, {}),
    ("seresnet50", 64, {"layers": (1, 1, 1, 1)}),
    ("resnetv2_50", 64, {"layers": (1, 1, 1, 1)}),
    ("rexnet_100", 64, {}),
    ("selecsls42", 64, {}),
    ("sequencer2d_s", 224, {"img_size": 224, "layers": (1, 1, 1, 1)}),
    ("shvit_s1", 64, {}),
    ("skresnet18", 64, {}),
    ("swiftformer_xs", 224, {"img_size": 224}),
    ("swin_tiny_patch4_window7_224", 224, {"img_size": 224, "depths": (1, 1, 2, 1)}),
    ("swinv2_tiny_window8_256", 256, {"img_size": 256, "depths": (1, 1, 2, 1)}),
    ("tiny_vit_5m_224", 224, {}),
    ("tnt_s_legacy_patch16_224", 224, {"img_size": 224, "depth": 2}),
    ("twins_svt_small", 224, {"img_size": 224, "depths": (1, 1, 1, 1)}),
    ("visformer_tiny", 224, {"img_size": 224}),
    ("vit_tiny_patch16_224", 64, {"img_size": 64, "depth": 2}),
    ("vit_relpos_small_patch16_224", 64, {"img_size": 64, "depth": 2}),
    ("samvit_base_patch16", 256, {"img_size": 256, "depth": 2, "embed_dim": 48, "num_heads": 4}),
    ("ese_vovnet19b_slim", 64, {}),
    ("xcit_nano_12_p16_224", 224, {"img_size": 224, "depth": 2}),
    ("botnet26t_256", 256, {"img_size": 256}),
    ("naflexvit_base_patch16_gap", 64, {"embed_dim": 48, "depth": 2, "num_heads": 4}),
)
"""Name, side of the square image in pixels, and what is made smaller than in the paper."""


def _build(name: str, size: int, options: dict[str, Any]) -> Built:
    import timm

    model = timm.create_model(name, pretrained=False, **options).eval()
    return model, (torch.randn(1, 3, size, size),), {}


ENTRIES = tuple(Entry("timm", row[0], partial(_build, *row)) for row in MODELS)
