"""A project's own logger says a thing once."""

import logging

import torch
from torch import nn


class OnceLogger(logging.Logger):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.said = set()

    def warning_once(self, text, *args):
        if text not in self.said:
            self.said.add(text)
            self.warning(text, *args)


log = OnceLogger("field.attention")
log.addHandler(logging.NullHandler())


class OldCache(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.mix = nn.Linear(width, width)

    def forward(self, x, past=None):
        if past is not None and isinstance(past, tuple):
            log.warning_once("tuples of keys and values are deprecated; pass a cache")
            x = x + past[0]
        return self.mix(x).softmax(-1)


def build():
    torch.manual_seed(0)
    return OldCache(), (torch.randn(2, 6), (torch.randn(2, 6), torch.randn(2, 6)))
