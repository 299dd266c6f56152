"""FG406: no row, or rows of no element, of more dimensions, or of different lengths in a list."""

import torch


def first_hits(rows_of_scores, threshold=0.5):
    found = []
    for row in rows_of_scores:
        hits = (row > threshold).nonzero()
        if len(hits) > 0:
            found.append(hits[0, 0])
        else:
            found.append(torch.tensor(-1))
    return torch.stack(found)


def build():
    torch.manual_seed(0)
    scores = torch.rand(4, 6)
    scores[1] = 0
    return first_hits, (scores,)


def witnesses():
    """No row, no column, blocks, one row as a vector, a ragged list, a tuple, NaN, other
    thresholds.
    """
    scores = torch.tensor([[0.1, 0.9, float("nan")], [0.2, 0.3, 0.1]])
    return [
        (torch.zeros(0, 4),),
        (torch.zeros(2, 0),),
        (torch.stack([scores, scores.flip(1)]),),
        (scores[0],),
        (torch.zeros(2),),
        ([torch.tensor([0.1, 0.9]), torch.tensor([0.9, 0.1, 0.3])],),
        ((scores[0], scores[1]),),
        (scores, torch.tensor([[0.05], [0.2], [0.9]])[:1]),
        (scores, torch.tensor([0.0, 0.95, 0.0])),
        (scores > 0.2, 0.5),
        (torch.tensor(0.7),),
    ]
