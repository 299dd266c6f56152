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

    `model` is the given module itself and not a copy: train through this module, and call `model`
    for inference. `targets` is the number of positional arguments, counted from the last, that
    are passed to the loss. If the loss is a module, it is part of the state dict.
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
        """Return the loss; its last `targets` arguments go to `loss`, the others to `model`."""
        cut = len(args) - self.targets
        return self.loss(self.model(*args[:cut], **kwargs), *args[cut:])
