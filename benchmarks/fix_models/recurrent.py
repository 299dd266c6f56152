# ruff: noqa
"""Recurrent layers and packed sequences."""

import torch
import torch.nn as nn
from torch.autograd import Variable
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.fix_models.case import Case, Repair
from fullgraph.diagnose.taxonomy import Category


class CRNNHead(nn.Module):
    def __init__(self, nIn=6, nHidden=5, nOut=4):
        super().__init__()
        self.rnn = nn.LSTM(nIn, nHidden, bidirectional=True)
        self.embedding = nn.Linear(nHidden * 2, nOut)

    def forward(self, input):
        recurrent, _ = self.rnn(input)
        T, b, h = recurrent.size()
        output = self.embedding(recurrent.view(T * b, h))
        return output.view(T, b, -1)


class SentenceGRU(nn.Module):
    def __init__(self, vocab=20, dim=6):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, dim, num_layers=2, batch_first=True)

    def forward(self, tokens):
        _, h = self.gru(self.emb(tokens))
        return h[-1]


class LanguageModel(nn.Module):
    """Old style: an LSTM with a wrapped hidden state."""

    def __init__(self, vocab=20, nhid=6):
        super().__init__()
        self.nhid = nhid
        self.encoder = nn.Embedding(vocab, nhid)
        self.rnn = nn.LSTM(nhid, nhid)
        self.decoder = nn.Linear(nhid, vocab)

    def init_hidden(self, bsz):
        weight = next(self.parameters()).data
        return (
            Variable(weight.new(1, bsz, self.nhid).zero_()),
            Variable(weight.new(1, bsz, self.nhid).zero_()),
        )

    def forward(self, input):
        output, _ = self.rnn(self.encoder(input), self.init_hidden(input.size(1)))
        return self.decoder(output)


class FrameEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 6, 3, padding=1)
        self.rnn = nn.RNN(6, 6, batch_first=True, nonlinearity="relu")

    def forward(self, wave):
        x = self.conv(wave).transpose(1, 2)
        out, _ = self.rnn(x)
        return out.mean(1)


class PackedEncoder(nn.Module):
    def __init__(self, dim=6):
        super().__init__()
        self.rnn = nn.GRU(dim, dim, batch_first=True)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, _ = self.rnn(packed)
        out, _ = pad_packed_sequence(out, batch_first=True)
        return out


CASES = (
    Case(CRNNHead, lambda: (torch.randn(5, 2, 6),), Category.RNN, Repair.RNN_FLAG),
    Case(SentenceGRU, lambda: (torch.randint(0, 20, (2, 5)),), Category.RNN, Repair.RNN_FLAG),
    Case(LanguageModel, lambda: (torch.randint(0, 20, (5, 2)),), Category.RNN, Repair.RNN_FLAG),
    Case(FrameEncoder, lambda: (torch.randn(2, 3, 8),), Category.RNN, Repair.RNN_FLAG),
    Case(
        PackedEncoder,
        lambda: (torch.randn(2, 5, 6), torch.tensor([3, 5])),
        Category.PACKED,
        Repair.NONE,
    ),
)
