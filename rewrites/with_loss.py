"""A model and its loss in one module, so that the compiler sees both as one graph.

step = torch.compile(WithLoss(model, loss))
step(inputs, targets).backward()
step.model                       # the model alone again, for inference
"""

from __future__ import annotations

from collections.abc import Callable

import torch


class WithLoss(torch.nn.Module):
    """Module whose forward returns `loss(model(*inputs), *targets)`.

    `model` stays the module that was given, with its own parameters and state: train through this
    one, run `model` by itself. `targets` is how many of the last positional arguments are the
    loss's. A loss that is a module is part of the state dict.
    """

    def __init__(
        self, model: torch.nn.Module, loss: Callable[..., torch.Tensor], targets: int = 1
    ) -> None:
        super().__init__()
        if targets < 0:
            raise ValueError(f"targets must not be negative, and is {targets}")
        self.model = model
        self.loss = loss
        self.targets = targets

    def forward(self, *args: object, **kwargs: object) -> torch.Tensor:
        """Return the loss; the last `targets` arguments go to the loss alone."""
        cut = len(args) - self.targets
        return self.loss(self.model(*args[:cut], **kwargs), *args[cut:])
