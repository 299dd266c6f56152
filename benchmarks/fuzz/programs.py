"""Random programs of 3 to 20 operators, which eager runs at two sizes of the batch.

operators.txt has the operators, under the kind of value that `{x}` is: "float", "complex",
"integer", "bool", "number" (float or integer) or "any". `{y}` is a value of the same kind, `{d}`
and `{e}` are dims, `{k}` is a small integer and `{f}` a float. An operator's weight is one more
than the number of its samples in benchmarks/opdb/samples.txt, at most 4.
"""

from __future__ import annotations

import contextlib
import math
import random
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.nn.functional as F

K = TypeVar("K")
OPERATORS = Path(__file__).with_name("operators.txt")
SAMPLES = Path(__file__).parents[1] / "opdb" / "samples.txt"
LARGEST, GREATEST = 20_000, 1e4
"""Most elements of a value, and greatest magnitude."""
BATCHES = ((4, 7), (5, 2), (3, 6), (8, 5))
"""Sizes of the batch in the two calls."""
DTYPES = {
    torch.float32: 12.0, torch.float64: 2.0, torch.bfloat16: 2.0, torch.float16: 1.0,
    torch.int64: 2.0, torch.int32: 1.0, torch.uint8: 1.0, torch.bool: 1.0,
}  # fmt: skip
LAYOUTS = {
    "contiguous": 8.0, "transposed": 2.0, "channels_last": 3.0, "expanded": 1.0, "with gaps": 1.0,
    "overlapping": 1.0,
}  # fmt: skip
SIZES = {1: 2.0, 2: 2.0, 3: 4.0, 4: 4.0, 5: 3.0, 6: 3.0, 8: 3.0, 16: 2.0, 0: 0.3}
RANKS = {1: 2.0, 2: 6.0, 3: 4.0, 4: 5.0}
"""Dtypes, layouts, sizes and ranks of inputs, with their weights."""
NAMES = {"torch": torch, "F": F, "math": math}
"""Names that a program reads."""


@dataclass(frozen=True)
class Input:
    """How an input is made."""

    sizes: tuple[int | None, ...]
    """None is the size of the batch."""
    dtype: torch.dtype
    layout: str

    def make(self, batch: int, generator: torch.Generator) -> torch.Tensor:
        """Return random values at a size of the batch."""
        shape = [batch if size is None else size for size in self.sizes]
        wanted = list(shape)
        if self.layout == "expanded":
            shape[-1] = 1
        elif self.layout == "with gaps":
            shape[-1] *= 2
        elif self.layout == "transposed":
            shape[0], shape[-1] = shape[-1], shape[0]
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        if not self.dtype.is_floating_point:
            values = (values * 3).abs() if self.dtype == torch.uint8 else values * 3
        x = (values > 0) if self.dtype == torch.bool else values.to(self.dtype)
        if self.layout == "channels_last":
            return x.contiguous(memory_format=torch.channels_last)
        if self.layout == "expanded":
            return x.expand(wanted)
        if self.layout == "with gaps":
            return x[..., ::2]
        if self.layout == "transposed":
            return x.transpose(0, -1)
        if self.layout == "overlapping":
            row = x[0].numel()
            return x.flatten()[: shape[0] + row - 1].unfold(0, row, 1).view_as(x)
        return x


@dataclass(frozen=True)
class Program:
    """A random program, and how it is compiled."""

    number: int
    inputs: tuple[Input, ...]
    lines: tuple[str, ...]
    outputs: tuple[str, ...]
    batches: tuple[int, int]
    is_dynamic: bool
    trains: bool

    @property
    def text(self) -> str:
        """Source of the function `program`."""
        names = ", ".join(f"x{number}" for number in range(len(self.inputs)))
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"def program({names}):\n{body}    return {', '.join(self.outputs)},\n"

    def function(self) -> Any:
        """Return the function."""
        scope = dict(NAMES)
        exec(compile(self.text, f"<program {self.number}>", "exec"), scope)
        return scope["program"]

    @property
    def configuration(self) -> str:
        """Whether sizes are static or dynamic, and whether it trains."""
        sizes = "dynamic" if self.is_dynamic else "static"
        return f"{sizes} {'training' if self.trains else 'inference'}"

    def arguments(self, call: int, dtype: torch.dtype | None = None) -> list[torch.Tensor]:
        """Return the arguments of one call; `dtype` replaces those of floating-point numbers."""
        generator = torch.Generator().manual_seed(1000 * self.number + call)
        tensors = [one.make(self.batches[call], generator) for one in self.inputs]
        if dtype is not None:
            tensors = [x.to(dtype) if x.is_floating_point() else x for x in tensors]
        return tensors


def draw(seed: int, number: int) -> Program:
    """Return one program of a seed; equal arguments give equal programs."""
    generator = random.Random(f"{seed}/{number}")
    while True:
        with contextlib.suppress(_Unusable):
            return _Writer(generator, number).write()


class _Unusable(Exception):
    """Raised if no operator can be added to a program."""


class _Writer:
    """State of drawing one program: its values at both sizes of the batch."""

    def __init__(self, generator: random.Random, number: int) -> None:
        self._random = generator
        self._program = Program(
            number,
            tuple(self._draw_input(place) for place in range(generator.randint(1, 3))),
            (),
            (),
            generator.choice(BATCHES),
            is_dynamic=generator.random() < 0.5,
            trains=generator.random() < 0.5,
        )
        self._values = [f"x{place}" for place in range(len(self._program.inputs))]
        self._scopes: list[dict[str, Any]] = [
            {**NAMES, **dict(zip(self._values, self._program.arguments(call), strict=True))}
            for call in (0, 1)
        ]
        self._read: set[str] = set()
        self._operators = read_operators()

    def write(self) -> Program:
        """Draw operators until the program has enough."""
        wanted, lines, failed = self._random.randint(3, 20), list[str](), 0
        while len(lines) < wanted:
            line = self._draw_line(f"v{len(lines)}")
            if line is not None:
                lines.append(line)
                continue
            failed += 1
            if failed > 400:
                raise _Unusable
        unread = [name for name in self._values if name not in self._read and name[0] == "v"]
        outputs = unread[:4] + [name for name in unread[4:] if self._random.random() < 0.3]
        return replace(self._program, lines=tuple(lines), outputs=tuple(outputs))

    def _pick(self, weights: Mapping[K, float]) -> K:
        return self._random.choices(list(weights), list(weights.values()))[0]

    def _draw_input(self, place: int) -> Input:
        sizes: list[int | None] = [self._pick(SIZES) for _ in range(self._pick(RANKS))]
        if place == 0 or self._random.random() < 0.6:
            sizes[0] = None
        is_plain = place == 0 and self._random.random() < 0.8
        dtype = torch.float32 if is_plain else self._pick(DTYPES)
        layout = self._pick(LAYOUTS)
        if layout == "channels_last" and len(sizes) != 4:
            layout = "contiguous"
        if layout == "overlapping" and (len(sizes) < 2 or 0 in sizes):
            layout = "contiguous"
        return Input(tuple(sizes), dtype, layout)

    def _draw_line(self, name: str) -> str | None:
        """Add one operator as a line of source; return None if eager does not run it."""
        values = self._values[-4:] if self._random.random() < 0.7 else self._values
        operand = self._random.choice(values)
        kinds = _kinds(self._scopes[0][operand])
        weights = {key: weight for key, (weight, _) in self._operators.items() if key[0] in kinds}
        kind, operator = self._pick(weights)
        template = self._operators[kind, operator][1]
        others = [one for one in self._values if kind in _kinds(self._scopes[0][one])]
        rank = max(self._scopes[0][operand].ndim, 1)
        parts: dict[str, Any] = {
            "x": operand,
            "y": self._random.choice(others),
            "d": self._random.randrange(-rank, rank),
            "e": self._random.randrange(-rank, rank),
            "k": self._random.randint(1, 3),
            "f": round(self._random.uniform(0.2, 1.5), 2),
        }
        updates_input = operator == "in-place: input"
        if updates_input:
            if self._program.trains or operand[0] != "x":
                return None
            line = f"{template.format(**parts)}; {name} = {operand} * 1"
        elif operator.startswith("in-place"):
            line = f"{name} = {operand}.clone(); {template.format(**{**parts, 'x': name})}"
        else:
            line = f"{name} = {template.format(**parts)}"
        scopes = [dict(scope) for scope in self._scopes]
        for scope in scopes:
            if updates_input:
                scope[operand] = scope[operand].clone()
            if not _runs(line, scope, name):
                return None
        self._scopes = scopes
        self._read |= {operand, *([parts["y"]] if "{y}" in template else [])}
        self._values.append(name)
        return line


def read_operators() -> dict[tuple[str, str], tuple[float, str]]:
    """Return the weight and the text of each operator, by its kind and name."""
    samples = Counter(name.split("/")[0].split(".")[-1] for name in SAMPLES.read_text().split())
    found: dict[tuple[str, str], tuple[float, str]] = {}
    kind = ""
    for line in OPERATORS.read_text().splitlines():
        if line.startswith("["):
            kind = line.strip("[]")
        elif line:
            name, _, text = line.partition("\t")
            found[kind, name] = (1 + min(samples[name.removeprefix("nn.functional.")], 3), text)
    return found


def _kinds(value: torch.Tensor) -> tuple[str, ...]:
    """Return the kinds of operators that take a value."""
    if value.is_complex():
        return ("complex", "any")
    if value.dtype == torch.bool:
        return ("bool", "any")
    return ("float" if value.is_floating_point() else "integer", "number", "any")


def _runs(line: str, scope: dict[str, Any], name: str) -> bool:
    """Run a line in a scope; return whether eager does, and its value is small and finite."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(line, scope)
    except Exception:  # whatever eager says of it
        return False
    value = scope[name]
    if not isinstance(value, torch.Tensor) or value.numel() > LARGEST or value.ndim > 5:
        return False
    is_exact = not (value.is_floating_point() or value.is_complex())
    return is_exact or bool((value.abs().nan_to_num(math.inf) <= GREATEST).all())
