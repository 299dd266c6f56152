"""FG222: the lengths are changed in place, for an end token, between the list and the maximum."""

import torch
from torch.nn.utils.rnn import pad_sequence


def pad_mask(parts, with_end=False):
    lengths = torch.tensor([len(part) for part in parts])
    if with_end:
        lengths += 1
    places = torch.arange(lengths.max().item())
    mask = places[None] < lengths[:, None]
    return pad_sequence(parts, batch_first=True), mask, lengths


def build():
    torch.manual_seed(0)
    return pad_mask, ([torch.randn(3, 2), torch.randn(5, 2)],)


def witnesses():
    """With the end token, and without any parts."""
    return [([torch.ones(3, 2), torch.ones(1, 2)], True), ([], False), ([torch.ones(0, 2)], False)]
