"""FG853: a second global and a default argument took the number's first value."""

import torch

TOKENS = 0
START = TOKENS


def progress(total, start=TOKENS):
    return {"start": start, "seen": total - START}


def embed(x, report=False):
    global TOKENS
    TOKENS += x.shape[0]
    y = x.cos() + 0.01 * (TOKENS - START)
    if report:
        return y, progress(TOKENS)
    return y


def build():
    torch.manual_seed(0)
    return embed, (torch.randn(3, 4),)


def witnesses():
    """A report, a report of no rows, and other rows without one."""
    torch.manual_seed(1)
    x = torch.randn(5, 4)
    return [(x, True), (x[:0], True), (x[:2].requires_grad_(), False)]


def observe():
    return TOKENS, START, progress.__defaults__
