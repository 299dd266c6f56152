"""FG306: steps of several samples have no truth value, and one of shape (1,) must not shape the
result.
"""

import torch


def posterior_sample(x, predicted, t, sigma):
    mean = x - sigma * predicted
    if t > 0:
        noise = torch.randn_like(x)
        return mean + sigma * noise
    return mean


def build():
    torch.manual_seed(0)
    return posterior_sample, (
        torch.randn(2, 3),
        torch.randn(2, 3),
        torch.tensor(4),
        torch.tensor(0.3),
    )


def witnesses():
    """Three steps, two, one, none, a step that is NaN, and a single number that is denoised."""
    x, predicted, sigma = torch.ones(2, 3), torch.full((2, 3), 0.5), torch.tensor(0.3)
    return [
        (x, predicted, torch.tensor([0, 4, 4]), sigma),
        (x, predicted, torch.tensor([[0], [4]]), sigma),
        (x, predicted, torch.tensor([0]), sigma),
        (x, predicted, torch.zeros(0), sigma),
        (x, predicted, torch.tensor(float("nan")), sigma),
        (torch.tensor(1.0), torch.tensor(0.5), torch.tensor([0]), sigma),
        (torch.tensor(1.0), torch.tensor(0.5), torch.tensor([1]), sigma),
    ]
