"""A tagger packs its padded sentences for an LSTM and unpacks them afterwards."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Tagger(nn.Module):
    def __init__(self, words: int = 20, width: int = 6, tags: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, tags)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(
            self.embed(words), lengths, batch_first=True, enforce_sorted=False
        )
        hidden, _ = self.lstm(packed)
        hidden, _ = pad_packed_sequence(hidden, batch_first=True, total_length=words.shape[1])
        return self.out(hidden).log_softmax(-1)


def build():
    torch.manual_seed(0)
    return Tagger(), (torch.randint(0, 20, (3, 5)), torch.tensor([5, 2, 3]))
