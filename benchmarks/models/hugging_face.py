"""Models of transformers, from tiny configs with random weights: text, vision, audio and series."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.models.entry import Built, Entry

Inputs = Callable[[], dict[str, Any]]

VOCABULARY = 128
TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
SPECIAL: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SEQ2SEQ: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
}
T5: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
}
VISION: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
STAGES: dict[str, Any] = {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 16, 32, 32]}
AUDIO: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "conv_dim": (16, 16, 16),
    "conv_stride": (5, 2, 2),
    "conv_kernel": (10, 3, 3),
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
SERIES: dict[str, Any] = {
    "prediction_length": 4,
    "context_length": 12,
    "lags_sequence": [1, 2],
    "num_time_features": 1,
    "d_model": 16,
}


def _ids(length: int = 16) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (2, length))


def _text(length: int = 16, **more: Any) -> dict[str, Any]:
    return {
        "input_ids": _ids(length),
        "attention_mask": torch.ones(2, length, dtype=torch.long),
        **more,
    }


def _seq2seq(length: int = 16) -> dict[str, Any]:
    return {**_text(length), "decoder_input_ids": _ids(8)}


def _image(size: int = 32, **more: Any) -> dict[str, Any]:
    return {"pixel_values": torch.randn(2, 3, size, size), **more}


def _speech() -> dict[str, Any]:
    return {"input_values": torch.randn(2, 1600)}


def _video(size: int = 32) -> dict[str, Any]:
    return {"pixel_values": torch.randn(1, 4, 3, size, size)}


def _image_and_text(size: int = 32) -> dict[str, Any]:
    return {**_text(), **_image(size)}


def _regions() -> dict[str, Any]:
    return {
        **_text(),
        "visual_feats": torch.randn(2, 4, 16),
        "visual_pos": torch.rand(2, 4, 4),
    }


def _boxes() -> dict[str, Any]:
    return {**_text(), "bbox": torch.zeros(2, 16, 4, dtype=torch.long)}


def _past() -> dict[str, Any]:
    length = SERIES["context_length"] + max(SERIES["lags_sequence"])
    return {
        "past_values": torch.rand(2, length),
        "past_time_features": torch.rand(2, length, 1),
        "past_observed_mask": torch.ones(2, length),
        "future_values": torch.rand(2, SERIES["prediction_length"]),
        "future_time_features": torch.rand(2, SERIES["prediction_length"], 1),
    }


def _channels() -> dict[str, Any]:
    return {"past_values": torch.randn(2, 32, 2)}


def _log_mel() -> dict[str, Any]:
    return {"input_features": torch.randn(2, 8, 64), "decoder_input_ids": _ids(8)}


def _spectrogram() -> dict[str, Any]:
    return {"input_values": torch.randn(2, 64, 16)}


def _labelled_text() -> dict[str, Any]:
    return _text(labels=torch.tensor([0, 1]))


def _labelled_tokens() -> dict[str, Any]:
    ids = _ids()
    return {"input_ids": ids, "labels": ids}


def _labelled_image() -> dict[str, Any]:
    return _image(labels=torch.tensor([0, 1]))


def _labelled_speech() -> dict[str, Any]:
    return {**_speech(), "labels": torch.randint(1, 32, (2, 4))}


def _spans() -> dict[str, Any]:
    return _text(start_positions=torch.tensor([1, 2]), end_positions=torch.tensor([3, 5]))


EVAL: tuple[tuple[str, dict[str, Any], Inputs], ...] = (
    ("AlbertModel", {**TEXT, "embedding_size": 16}, _text),
    ("BertModel", TEXT, _text),
    ("BigBirdModel", {**TEXT, "block_size": 4, "num_random_blocks": 1}, partial(_text, 64)),
    ("CanineModel", {**TEXT, "local_transformer_stride": 8, "num_hash_buckets": 64}, _text),
    ("ConvBertModel", {**TEXT, "embedding_size": 32}, _text),
    (
        "DebertaV2Model",
        {**TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
        _text,
    ),
    (
        "DistilBertModel",
        {
            "vocab_size": VOCABULARY,
            "dim": 32,
            "n_layers": 2,
            "n_heads": 4,
            "hidden_dim": 64,
            "max_position_embeddings": 64,
        },
        _text,
    ),
    ("ElectraModel", {**TEXT, "embedding_size": 16}, _text),
    ("FNetModel", {**TEXT, "tpu_short_seq_length": 16}, lambda: {"input_ids": _ids()}),
    (
        "FunnelModel",
        {
            "vocab_size": VOCABULARY,
            "block_sizes": [1, 1],
            "block_repeats": [1, 1],
            "d_model": 32,
            "n_head": 4,
            "d_head": 8,
            "d_inner": 64,
        },
        _text,
    ),
    ("LayoutLMModel", TEXT, _boxes),
    ("LongformerModel", {**TEXT, "attention_window": 8, **SPECIAL}, _text),
    (
        "LxmertModel",
        {
            **TEXT,
            "l_layers": 1,
            "x_layers": 1,
            "r_layers": 1,
            "visual_feat_dim": 16,
        },
        _regions,
    ),
    ("ModernBertModel", {**TEXT, **SPECIAL}, _text),
    ("RoFormerModel", {**TEXT, "embedding_size": 32}, _text),
    (
        "XLNetModel",
        {"vocab_size": VOCABULARY, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64},
        _text,
    ),
    ("GPT2Model", {**TEXT, **SPECIAL}, _text),
    ("GPTNeoXModel", {**TEXT, **SPECIAL}, _text),
    ("LlamaModel", {**TEXT, **SPECIAL}, _text),
    ("MistralModel", {**TEXT, **SPECIAL, "num_key_value_heads": 2, "head_dim": 8}, _text),
    (
        "MixtralModel",
        {**TEXT, **SPECIAL, "num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 2},
        _text,
    ),
    ("Qwen2Model", {**TEXT, **SPECIAL, "num_key_value_heads": 2}, _text),
    ("Gemma2Model", {**TEXT, **SPECIAL, "num_key_value_heads": 2, "head_dim": 8}, _text),
    ("PhiModel", {**TEXT, **SPECIAL}, _text),
    ("OPTModel", {**TEXT, **SPECIAL, "ffn_dim": 64, "word_embed_proj_dim": 32}, _text),
    ("BloomModel", {**SPECIAL, "vocab_size": VOCABULARY, "hidden_size": 32, "n_head": 4}, _text),
    ("CTRLModel", {**TEXT, "dff": 64}, _text),
    ("MambaModel", {**TEXT, **SPECIAL, "state_size": 4}, lambda: {"input_ids": _ids()}),
    ("RwkvModel", {**TEXT, **SPECIAL, "context_length": 32}, lambda: {"input_ids": _ids()}),
    ("T5Model", T5, _seq2seq),
    ("LongT5Model", {**T5, "local_radius": 4}, _seq2seq),
    ("SwitchTransformersModel", {**T5, "num_experts": 2, "num_sparse_encoder_layers": 1}, _seq2seq),
    ("BartModel", SEQ2SEQ, _seq2seq),
    ("LEDModel", {**SEQ2SEQ, "attention_window": 8}, _seq2seq),
    (
        "ProphetNetModel",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "max_position_embeddings": 64,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "num_encoder_layers": 1,
            "num_decoder_layers": 1,
            "num_encoder_attention_heads": 4,
            "num_decoder_attention_heads": 4,
        },
        _seq2seq,
    ),
    ("ViTModel", VISION, _image),
    ("BeitModel", VISION, _image),
    (
        "SwinModel",
        {
            "image_size": 32,
            "patch_size": 4,
            "embed_dim": 16,
            "depths": [1, 1],
            "num_heads": [2, 4],
            "window_size": 4,
        },
        _image,
    ),
    ("ConvNextModel", STAGES, partial(_image, 64)),
    (
        "SegformerModel",
        {**STAGES, "num_attention_heads": [1, 2, 2, 4]},
        partial(_image, 64),
    ),
    ("ViTMAEModel", VISION, _image),
    ("VideoMAEModel", {**VISION, "num_frames": 4}, _video),
    ("Wav2Vec2Model", AUDIO, _speech),
    (
        "WhisperModel",
        {
            **{k: v for k, v in SEQ2SEQ.items() if k != "max_position_embeddings"},
            **SPECIAL,
            "num_mel_bins": 8,
            "max_source_positions": 32,
            "max_target_positions": 32,
        },
        _log_mel,
    ),
    ("ASTModel", {**VISION, "max_length": 64, "num_mel_bins": 16}, _spectrogram),
    (
        "CLIPModel",
        {"text_config": {**TEXT, **SPECIAL}, "vision_config": VISION, "projection_dim": 16},
        _image_and_text,
    ),
    ("ViltModel", {**TEXT, **VISION}, _image_and_text),
    ("InformerModel", SERIES, _past),
    ("TimeSeriesTransformerModel", SERIES, _past),
    (
        "PatchTSTModel",
        {"num_input_channels": 2, "patch_length": 8, "patch_stride": 8, "d_model": 16},
        _channels,
    ),
)

TRAIN: tuple[tuple[str, dict[str, Any], Inputs], ...] = (
    ("BertForSequenceClassification", {**TEXT, "num_labels": 2}, _labelled_text),
    ("RobertaForQuestionAnswering", {**TEXT, "pad_token_id": 0}, _spans),
    ("GPT2LMHeadModel", {**TEXT, **SPECIAL}, _labelled_tokens),
    ("T5ForConditionalGeneration", {**T5, "decoder_start_token_id": 0}, _labelled_tokens),
    ("ViTForImageClassification", {**VISION, "num_labels": 2}, _labelled_image),
    ("Wav2Vec2ForCTC", AUDIO, _labelled_speech),
)


def _build(model: str, config: dict[str, Any], inputs: Inputs, train: bool) -> Built:
    import transformers

    cls = getattr(transformers, model)
    return cls(cls.config_class(**config)).train(train), (), inputs()


ENTRIES = (
    *(Entry("transformers", row[0], partial(_build, *row, False)) for row in EVAL),
    *(Entry("transformers", f"{row[0]} (train)", partial(_build, *row, True)) for row in TRAIN),
)
