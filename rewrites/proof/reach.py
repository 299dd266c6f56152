"""Search for inputs on which a condition takes the side that no input has taken.

What the condition read last before it was decided is followed by its gradient (`Margins`) back to
the floating-point inputs, and then to the parameters. Then come extremes, constants with which the
program itself compares, permutations and repeated elements.
"""

from __future__ import annotations

import contextlib
import io
import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from fullgraph.compiler.private import force_eager, tree_map
from fullgraph.compiler.program import Program
from fullgraph.rewrites.proof.behaviour import freeze_clocks, seed_all
from fullgraph.rewrites.proof.conditions import Tape
from fullgraph.rewrites.proof.inputs import Calls, copy_calls, discrete_variants, tensors_of
from fullgraph.rewrites.proof.margins import Margins

STEPS = 40
"""Steps along the gradient of one read, in one direction."""
READS = 3
"""How many of the reads before a condition may have decided it."""
GOALS = 6
"""Maximum number of reads that are followed, each in both directions."""
_FIRST_STEP, _GROWTH, _SHRINK = 0.02, 1.25, 0.5
"""Length of the first step relative to the values; how a step that leads to more, or to less,
changes that of the next."""
_MOST_BYTES = 1 << 26

Parameters = dict[str, torch.Tensor]


def pack(calls: Calls, parameters: Parameters) -> bytes:
    """Return the tensors of `calls`, and the parameters that differ, for `ProofInput.found`."""
    leaves = [leaf.detach().clone() for leaf in _dense_tensors_of(calls)]
    return pickle.dumps((leaves, {name: one.detach() for name, one in parameters.items()}))


def unpack(subject: Program, calls: Calls, found: bytes) -> None:
    """Set the tensors of `calls`, a copy of the user's, and the parameters to what was packed."""
    values, parameters = pickle.loads(found)
    with torch.no_grad():
        for leaf, value in zip(_dense_tensors_of(calls), values, strict=True):
            leaf.copy_(value)
    _set_parameters(subject, parameters)


def reach(
    subject: Program,
    tape: Tape,
    is_reached: Callable[[], bool],
    restore: Callable[[], object],
    special: bool,
) -> Iterator[bytes]:
    """Yield inputs, packed, on which the condition of `tape` may take another side.

    `is_reached` says whether the run just made took it, `restore` undoes a run.
    """
    tensors = [*_dense_tensors_of(subject.calls), *_parameters_of(subject).values()]
    if sum(one.nbytes for one in tensors) > _MOST_BYTES:
        return
    constants: set[float] = set()
    for moves_parameters in (False, True):
        climber = _Climber(subject, tape, restore, moves_parameters)
        climber.begin()
        if not climber.leaves:
            continue
        margins = climber.run()
        restore()
        if not (any(one.is_of_data for one in tape.decisions) if tape.values else margins.count):
            return  # no value of a tensor decides it
        constants |= margins.constants
        for index, value in _goals(tape, margins.reads):
            for sign in (-1, 1) if value > 0 else (1, -1):
                yield from climber.climb(index, sign, is_reached)
    given = subject.calls[subject.eager_calls :]
    for calls in discrete_variants(given, sorted(constants), special=special):
        yield pack(calls, {})


def _goals(tape: Tape, reads: Sequence[torch.Tensor]) -> list[tuple[int, float]]:
    """Return the index and the value of each read that may decide the condition, likely first.

    Of a condition that was never evaluated any read of the program may have been the reason.
    """
    last = [one.reads for one in tape.decisions]
    some = dict.fromkeys([*last[-1:], *last[:1], *last[len(last) // 2 :][:1]])
    found = [end - back for back in range(1, READS + 1) for end in some if end >= back]
    indices = list(dict.fromkeys(found)) if last else list(range(len(reads)))
    return [(index, reads[index].item()) for index in indices[:GOALS]]


@dataclass
class _Climber:
    """Runs of a program that follow the gradient of what it reads."""

    subject: Program
    tape: Tape
    restore: Callable[[], object]
    moves_parameters: bool

    def begin(self) -> None:
        """Start from the user's inputs and parameters."""
        self.calls = copy_calls(self.subject.calls[self.subject.eager_calls :])
        self.parameters: Parameters = {}
        if self.moves_parameters:
            owned = _parameters_of(self.subject)
            self.parameters = {name: one.detach().clone() for name, one in owned.items()}
            self.leaves = list(self.parameters.values())
        else:
            self.leaves = [one for one in _dense_tensors_of(self.calls) if _is_float(one)]
        self.sizes = [leaf.square().mean().sqrt().clamp(min=0.1) for leaf in self.leaves]

    def run(self) -> Margins:
        """Run the program on the present values and return what it read."""
        self.tape.decisions.clear()
        _set_parameters(self.subject, self.parameters)
        owned = _parameters_of(self.subject)
        self.variables = [owned[name] for name in self.parameters]
        if not self.moves_parameters:
            self.variables = [leaf.detach().clone().requires_grad_() for leaf in self.leaves]
        inputs = {id(one): one.detach().clone() for one in _dense_tensors_of(self.calls)}
        moved = () if self.moves_parameters else zip(self.leaves, self.variables, strict=True)
        inputs |= {id(leaf): variable.clone() for leaf, variable in moved}
        arguments = [(call.args, dict(call.kwargs)) for call in self.calls]
        arguments = tree_map(lambda leaf: inputs.get(id(leaf), leaf), arguments)
        seed_all(0)
        text = io.StringIO()
        margins = self.tape.margins = Margins()
        with (
            contextlib.redirect_stdout(text),
            contextlib.redirect_stderr(text),
            contextlib.suppress(Exception, SystemExit),
            force_eager(),
            freeze_clocks(),
            margins,
        ):
            for args, kwargs in arguments:
                self.subject.target(*args, **kwargs)
        self.tape.margins = None
        return margins

    def climb(self, index: int, sign: int, is_reached: Callable[[], bool]) -> Iterator[bytes]:
        """Move along the gradient of read `index`; yield the inputs that reach the side.

        A step that leads to less is taken back, and the next one is shorter.
        """
        self.begin()
        gradients: list[torch.Tensor | None] = []
        length, best, kept = _FIRST_STEP, -math.inf, [one.clone() for one in self.leaves]
        for _ in range(STEPS):
            margins = self.run()
            if is_reached():
                self.restore()
                yield pack(self.calls, self.parameters)
            goal = margins.reads[index] * sign if index < len(margins.reads) else None
            if goal is not None and goal.item() > best:
                best, length = goal.item(), length * _GROWTH
                kept = [one.clone() for one in self.leaves]
                gradients = self._gradients(goal)
            else:
                length *= _SHRINK
            self.restore()
            if not any(gradient is not None for gradient in gradients):
                break
            for leaf, start, gradient in zip(self.leaves, kept, gradients, strict=True):
                with torch.no_grad():
                    leaf.copy_(start if gradient is None else start + length * gradient)

    def _gradients(self, goal: torch.Tensor) -> list[torch.Tensor | None]:
        """Return the directions in which `goal` grows, in units of the values."""
        try:
            gradients = torch.autograd.grad(goal, self.variables, allow_unused=True)
        except RuntimeError:  # the program changed in place what the gradient needs
            return [None] * len(self.leaves)
        return [
            size * _flatten(one) if one is not None and one.isfinite().all() and one.any() else None
            for size, one in zip(self.sizes, gradients, strict=True)
        ]


def _flatten(gradient: torch.Tensor) -> torch.Tensor:
    """Return a gradient with elements of about the same size, so that those far off move, too."""
    return gradient / (gradient.abs() + gradient.abs().mean() / 10)


def _dense_tensors_of(calls: Calls) -> list[torch.Tensor]:
    """Return each dense tensor among the arguments once."""
    dense = (one for one in tensors_of(calls) if one.layout is torch.strided)
    return list({id(one): one for one in dense}.values())


def _is_float(one: object) -> bool:
    return isinstance(one, torch.Tensor) and one.is_floating_point() and one.numel() > 0


def _parameters_of(subject: Program) -> Parameters:
    """Return the parameters that require a gradient, by name."""
    named = subject.module.named_parameters() if subject.module is not None else ()
    return {name: one for name, one in named if one.requires_grad and _is_float(one)}


def _set_parameters(subject: Program, parameters: Parameters) -> None:
    owned = _parameters_of(subject)
    with torch.no_grad():
        for name, value in parameters.items():
            owned[name].copy_(value)
