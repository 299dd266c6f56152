"""Pairs of a function and a rewrite of it that is wrong in one way, to see that the proof minds."""

from fullgraph.rewrites.proof import FINITE_ORIGINAL, NEW_GRADIENT, NO_GRADIENT
from fullgraph.rewrites.proof.wider import NOT_EMPTY, SAME_DTYPES, SAME_SIZES

HEAD = """\
import logging
import math
import random
import sys
import warnings

import torch

log = logging.getLogger("mutants")
log.addHandler(logging.NullHandler())
log.propagate = False
seen = []
state = {"steps": 0}
buffer = torch.zeros(4)
weight = torch.ones(4)
"""

WRONG = {
    "what is equal only to the last digit": (
        "    if x[0].item() == x[1].item():\n        return x + 1\n    return x * 2",
        "    return torch.where(x[0] == x[1], x + 1.001, x * 2)",
    ),
    "swapped arms": (
        "    if x.sum() > 0:\n        return x * 2\n    return x * 3",
        "    return torch.where(x.sum() > 0, x * 3, x * 2)",
    ),
    "wrong on the other side only": (
        "    if x.sum() > 0:\n        return x * 2\n    return x * 3",
        "    return torch.where(x.sum() > 0, x * 2, x * 4)",
    ),
    "wrong at the boundary only": (
        "    if x.sum() >= 0:\n        return x * 2 + 1\n    return x * 3",
        "    return torch.where(x.sum() > 0, x * 2 + 1, x * 3)",
    ),
    "wrong for negative values only": ("    return x.abs() * 2", "    return x * 2"),
    "wrong for an empty mask only": (
        "    return x[x > 0].sum() / max((x > 0).sum().item(), 1)",
        "    return torch.where(x > 0, x, 0).sum() / (x > 0).sum()",
    ),
    "dropped side effect": ("    seen.append(1)\n    return x + 1", "    return x + 1"),
    "side effect twice": (
        "    seen.append(1)\n    return x + 1",
        "    seen.append(1)\n    seen.append(1)\n    return x + 1",
    ),
    "counter missed": (
        "    state['steps'] += 1\n    return x * state['steps']",
        "    return x * (state['steps'] + 1)",
    ),
    "buffer not updated": ("    buffer.add_(x.detach())\n    return x + 1", "    return x + 1"),
    "state with a gradient that it never had": (
        "    state['total'] = x.detach() * 2\n    return x + 1",
        "    state['total'] = x * 2\n    return x + 1",
    ),
    "stale value in a deferred print": (
        "    y = x.detach().clone()\n    y.zero_()\n    print(y)\n    y += 1\n    return y + x",
        "    y = x.detach().clone()\n    y.zero_()\n    y += 1\n    print(y)\n    return y + x",
    ),
    "order of prints": (
        "    print('a')\n    print('b')\n    return x",
        "    print('b')\n    print('a')\n    return x",
    ),
    "print on another stream is still text, but a dropped one is not": (
        "    print('a', file=sys.stderr)\n    return x",
        "    return x",
    ),
    "log level": ("    log.warning('a')\n    return x", "    log.error('a')\n    return x"),
    "log dropped": ("    log.warning('a')\n    return x", "    return x"),
    "warning dropped": ("    warnings.warn('a')\n    return x", "    return x"),
    "exception type": (
        "    if not torch.isfinite(x).all():\n        raise ValueError('bad')\n    return x + 1",
        "    if not torch.isfinite(x).all():\n        raise RuntimeError('bad')\n    return x + 1",
    ),
    "exception message": (
        "    if not torch.isfinite(x).all():\n        raise ValueError('bad')\n    return x + 1",
        "    if not torch.isfinite(x).all():\n        raise ValueError('worse')\n    return x + 1",
    ),
    "exception lost": (
        "    assert not torch.isnan(x).any()\n    return x + 1",
        "    return x + 1",
    ),
    "random number drawn twice": (
        "    return x + random.random()",
        "    random.random()\n    return x + random.random()",
    ),
    "another generator": ("    return x + random.random()", "    return x + float(torch.rand(()))"),
    "random number drawn after": (
        "    y = x * random.random()\n    return y * torch.rand(())",
        "    return x * random.random() * (torch.rand(()) * 0 + torch.rand(()))",
    ),
    "dtype": ("    return x * 2", "    return (x * 2).double()"),
    "integer for float": ("    return x.sum()", "    return x.sum().long()"),
    "shape": ("    return x.sum()", "    return x.sum().reshape(1)"),
    "broadcast": ("    return x * 2", "    return x[None] * 2"),
    "structure": ("    return x, x * 2", "    return [x, x * 2]"),
    "gradient cut": ("    return x * x.sum()", "    return x * x.sum().detach()"),
    "gradient that is NaN": (
        "    return x.relu().clamp(min=1e-3).sqrt() * 0 + x",
        "    return torch.where(x > 0, x.sqrt() * 0, 0.0) + x",
    ),
    "in place through an alias": (
        "    y = x[:2]\n    y += 1\n    return x.sum()",
        "    y = x[:2]\n    y = y + 1\n    return x.sum()",
    ),
    "argument changed": ("    y = x * 2\n    return y", "    x *= 2\n    return x"),
    "output shares memory no more": ("    return x[:2]", "    return x[:2].clone()"),
    "only on the second call": (
        "    state['steps'] += 1\n    return x * min(state['steps'], 1)",
        "    state['steps'] += 1\n    return x * state['steps']",
    ),
    "a gradient where there was none": ("    return x.detach() * 2", "    return x * 2"),
    "no gradient where there was one": ("    return x * 2", "    return x.detach() * 2"),
    "no gradient where there was one of zero": (
        "    return x * 0 + x.detach()",
        "    return x.detach() * 1",
    ),
    "a gradient on one side only": (
        "    if x.sum() > 0:\n        return x * 2\n    return x.detach() * 3",
        "    return torch.where(x.sum() > 0, x * 2, x * 3)",
    ),
    "state that asks for a gradient": (
        "    state['last'] = x.detach() * 2\n    return x + 1",
        "    state['last'] = x * 2\n    return x + 1",
    ),
    "an exception where there was none": (
        "    return x + 1",
        "    if torch.isnan(x).any():\n        raise ValueError('bad')\n    return x + 1",
    ),
    "a gradient of other random numbers": (
        "    if x.sum() > 0:\n        return x * torch.rand(4)\n    return x * 3",
        "    return torch.cond(x.sum() > 0, lambda: x * torch.rand(4), lambda: x * 3)",
    ),
    "rounded": ("    return x / 3", "    return (x / 3 * 100).round() / 100"),
}
"""What is wrong, the body of `f(x)`, and the body it was rewritten to."""

RIGHT = {
    "periodic functions of large numbers": (
        "    w = math.cos(math.pi * x[0].item())\n    return w * x",
        "    w = torch.cos(math.pi * x[0].detach())\n    return w * x",
    ),
    "where": (
        "    if x.sum() > 0:\n        return x * 2\n    return x * 3",
        "    return torch.where(x.sum() > 0, x * 2, x * 3)",
    ),
    "an early return that cuts the gradient now and then": (
        "    if x.sum() > 0:\n        return x.detach() * 2\n    return x * 3",
        "    return torch.where(x.sum() > 0, x.detach() * 2, x * 3)",
    ),
    "masked mean": (
        "    return x[x > 0].sum() / 4",
        "    return torch.where(x > 0, x, 0).sum() / 4",
    ),
    "the same random number": (
        "    return x + random.random()",
        "    return x + random.uniform(0.0, 1.0)",
    ),
    "clamp": (
        "    return x / max((x > 0).sum().item(), 1)",
        "    return x / (x > 0).sum().clamp(min=1)",
    ),
}

GRANTED = {
    "zero where there was none": (
        "    return x.detach() * 2",
        "    return x.detach() * 2 + x * 0",
        (NEW_GRADIENT, NO_GRADIENT),
    ),
    "only one side has a gradient": (
        "    if x.sum() > 0:\n        return x * 2\n    return torch.ones(4)",
        "    return torch.where(x.sum() > 0, x * 2, torch.ones(4))",
        (NEW_GRADIENT, NO_GRADIENT, SAME_SIZES, NOT_EMPTY),
    ),
    "state that only one side gives a gradient": (
        "    if x.sum() > 0:\n        state['total'] = x * 2\n    else:\n"
        "        state['total'] = torch.ones(4)\n    return x + 1",
        "    state['total'] = torch.where(x.sum() > 0, x * 2, torch.ones(4))\n    return x + 1",
        (NEW_GRADIENT, SAME_SIZES, NOT_EMPTY),
    ),
    "another value where the original is not finite": (
        "    return (x + 2).log().sum()",
        "    return torch.where(x > -2, x + 2, 1.0).log().sum()",
        (FINITE_ORIGINAL,),
    ),
    "a global that one side alone uses": (
        "    if x.sum() > 0:\n        return x * weight\n    return x * 3",
        "    return torch.cond(x.sum() > 0, lambda: x * weight, lambda: x * 3)",
        (NOT_EMPTY, SAME_DTYPES),
    ),
}
"""The body of `f(x)`, the body it was rewritten to, and what must be granted for it to be right."""
