"""FG200: the ordinary prompt repeats no token; with a token twice the loop penalises it twice."""

import torch


def penalise(scores, tokens, penalty=1.3):
    scores = scores.clone()
    for i in range(scores.shape[0]):
        for token in tokens[i].tolist():
            if scores[i, token] < 0:
                scores[i, token] *= penalty
            else:
                scores[i, token] /= penalty
    return scores


def build():
    torch.manual_seed(0)
    return penalise, (torch.randn(2, 12), torch.tensor([[1, 4, 7], [0, 3, 9]]))


def witnesses():
    """A token two and three times, and a batch of rows with no tokens."""
    torch.manual_seed(1)
    scores = torch.randn(2, 12)
    return [
        (scores, torch.tensor([[4, 4, 7], [3, 3, 3]])),
        (scores, torch.zeros(2, 0, dtype=torch.int64)),
    ]
