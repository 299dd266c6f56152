"""Reasons for which Dynamo skips a frame without a graph break."""

from __future__ import annotations

_BENIGN = (
    "already Dynamo-generated",
    "already started executing",
    "traced frame already",
    "skipfiles",
    "no tensor-related objects",
    "namedtuple",
    "__setattr__ frames",
    "torch.optim __init__",
    "No ops traced",
    "empty graph",
    "generator expression in transformers",
    # Consequences of other failures, which have events of their own.
    "an error was suppressed",
    "custom frame execution strategy",
    "exception-directed frame execution",
)

_SENTENCES = {
    "torch dispatch mode": "A TorchDispatchMode is active: torch.compile does not trace under it.",
    "non-recursively disabled": "It is excluded by `torch.compiler.disable(recursive=False)`.",
    "exec()": "It was made by `exec()`, which Dynamo does not trace.",
    "tracing is disabled": "Dynamo is switched off (`torch._dynamo.config.disable` or "
    "`TORCHDYNAMO_DISABLE`).",
    "wrapper subclass": "It makes a tensor subclass, and Dynamo does not trace its `__init__`.",
    "TORCHDYNAMO_DEBUG_FUNCTION": "`TORCHDYNAMO_DEBUG_FUNCTION` names another function.",
}


def describe_skip(reason: str) -> str | None:
    """Return Dynamo's reason for a skip as a sentence; None if the skip loses nothing.

    Nothing is lost where there is nothing to compile: no tensors, no ops, generated code.
    """
    if any(words in reason for words in _BENIGN):
        return None
    for words, sentence in _SENTENCES.items():
        if words.lower() in reason.lower():
            return sentence
    text = reason.strip().partition("\n")[0].rstrip(".")
    return f"{text[:1].upper()}{text[1:]}." if text else None
