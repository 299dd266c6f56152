"""FG302: a helper looks up the gain by the name of the function that calls it, and
warns at its line."""

import sys
import warnings

import torch

GAINS = {"encode": 2.0, "decode": 0.5}


def scoped_gain(x):
    caller = sys._getframe(1).f_code.co_name
    if caller not in GAINS:
        warnings.warn(f"no gain for {caller}", stacklevel=2)
    return x * GAINS.get(caller, 1.0)


def encode(x):
    if x.mean() > 0:
        y = x * 3
    else:
        y = scoped_gain(x)
    return y + 1


def build():
    torch.manual_seed(0)
    return encode, (torch.rand(2, 4),)


def witnesses():
    """The branch of the helper, with numbers and NaN."""
    return [(torch.full((2, 4), -1.0),), (torch.full((2, 4), float("nan")),)]
