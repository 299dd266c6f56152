"""FG406: rows and limits go in pairs as far as both reach, and the last hit and the count go with
them.
"""

import torch


def crossings(signals, limits):
    last = []
    counts = []
    for signal, limit in zip(signals, limits):
        above = (signal > limit).nonzero()
        counts.append(torch.tensor(len(above)))
        if len(above) > 0:
            last.append(above[-1, 0])
        else:
            last.append(torch.tensor(0))
    return torch.stack(last), torch.stack(counts)


def build():
    torch.manual_seed(0)
    return crossings, (torch.rand(4, 7), torch.tensor([0.2, 0.5, 0.8, 1.0]))


def witnesses():
    """Fewer limits, fewer signals, one limit, limits for each sample, a list of floats, none, and
    NaN.
    """
    signals = torch.tensor([[0.1, 0.9, 0.4], [0.6, 0.3, 0.1], [0.9, 0.9, 0.2]])
    return [
        (signals, torch.tensor([0.3, 0.5])),
        (signals[:2], torch.tensor([0.3, 0.5, 0.7])),
        (signals, torch.tensor([0.3])),
        (signals, torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [1.0, 0.5, 0.0]])),
        (signals, [0.3, 0.5, 0.7]),
        (signals, torch.zeros(0)),
        (signals, torch.tensor([float("nan"), 0.5, -1.0])),
        (signals[:, :0], torch.tensor([0.3, 0.5, 0.7])),
    ]
