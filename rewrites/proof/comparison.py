"""How what two programs did differs, and what must be granted for it to be the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.testing import assert_close

from fullgraph.compiler.numerics import SCALAR, tolerance_of
from fullgraph.rewrites.proof.behaviour import Behaviour, TensorValue
from fullgraph.rewrites.proof.proof import Check

NO_GRADIENT = "a gradient of zero is as good as none"
ASKS = "a result may ask for a gradient where it asked for none"
NO_BACKWARD = "no gradient is asked of it, which would draw random numbers"
_TITLES = {
    "raised": "exceptions",
    "outputs": "outputs",
    "gradients": "gradients",
    "state": "state",
    "text": "text",
    "records": "logs and warnings",
    "randomness": "random numbers",
}
"""What is compared, and what a person calls it."""
_NUDGES, _MOST = 8.0, 1e-3
"""How many times as far as a nudge of the inputs moves a result another one may be away from it,
and how far at most, of its greatest element."""


@dataclass(frozen=True)
class ProofInput:
    """One input that was tried: which variant, and whether with gradients."""

    number: int
    backward: bool
    nudged: bool = False
    """Whether each number of the inputs is another one, next to what it was."""

    def __str__(self) -> str:
        given = "the given inputs"
        which = f"derived inputs, number {self.number}" if self.number else given
        return f"{which}, with a backward" if self.backward else which


def compare_behaviours(
    old: Mapping[ProofInput, Behaviour],
    new: Mapping[ProofInput, Behaviour],
    *,
    numbers: bool = False,
    learns: bool = True,
    nudged: Callable[[ProofInput], Behaviour | None] = lambda _: None,
) -> list[Check]:
    """One check for each thing that a run shows.

    What holds only where a gradient of zero and none are the same, or where a result may ask for a
    gradient that asked for none, says so in `Check.assumes`. With `numbers` a tensor without
    dimensions may stand for a number. Where nothing `learns` that the user gave, a backward may
    draw random numbers: that is another assumption. `nudged` runs the old code on inputs that are
    hardly different: what that moves is no exact number.
    """
    told = {(case.backward, _aliases(one.outputs)) for case, one in old.items() if not one.raised}
    steady = len(told) == len({backward for backward, _ in told})
    checks = [_compared(name, old, new, numbers, steady, nudged) for name in _TITLES]
    if not learns and not checks[-1].ok:
        forward = {case: one for case, one in old.items() if not case.backward}
        again = _compared("randomness", forward, new, numbers, steady, nudged)
        checks[-1] = replace(again, assumes=(NO_BACKWARD,)) if again.ok else again
    return checks


def _compared(
    name: str,
    old: Mapping[ProofInput, Behaviour],
    new: Mapping[ProofInput, Behaviour],
    numbers: bool,
    steady: bool,
    nudged: Callable[[ProofInput], Behaviour | None],
) -> Check:
    """The check of one thing; that outputs share memory counts only where it is always so."""
    title = _TITLES[name]
    assumes: dict[str, None] = {}
    for case, before in old.items():
        if name == "gradients" and before.raised is not None:
            continue
        after = new.get(case)
        detail = "the new code did not get that far"
        if after is not None:
            a, b = getattr(before, name), getattr(after, name)
            if numbers and name in ("outputs", "state"):
                a, b = _numbers(a), _numbers(b)
            if name == "gradients":
                a, b = _without_zeros(a, b, assumes)
            if name == "outputs":
                a, b = _outputs(a, b, steady, assumes)
            detail = _raised(a, b) if name == "raised" else difference(a, b, title)
            if detail and name in ("outputs", "gradients", "state") and (moved := nudged(case)):
                detail = difference(a, _excused(a, b, getattr(moved, name)), title)
        if detail:
            return Check(title, False, f"{detail} (on {case})")
    return Check(title, True, assumes=tuple(assumes))


def difference(a: Any, b: Any, what: str) -> str:
    """How `b` differs from `a`, in half a sentence; "" if it does not."""
    if isinstance(a, TensorValue) and isinstance(b, TensorValue):
        return _tensors_differ(a, b, what)
    if isinstance(a, float) and isinstance(b, float):
        close = math.isclose(a, b, rel_tol=SCALAR.rtol, abs_tol=SCALAR.atol) or (a != a and b != b)
        return "" if close else f"{what}: {b!r} instead of {a!r}"
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if a.keys() != b.keys():
            odd = sorted(set(a) ^ set(b), key=str)[0]
            return f"{what}: {odd} is there in one of them only"
        return next(filter(None, (difference(a[k], b[k], f"{k}") for k in a)), "")
    if isinstance(a, tuple | list) and type(a) is type(b):
        if len(a) != len(b):
            return f"{what}: {len(b)} items instead of {len(a)}"
        return next(filter(None, (difference(x, y, what) for x, y in zip(a, b, strict=True))), "")
    if type(a) is type(b) and a == b:
        return ""
    return f"{what}: {_short(b)} instead of {_short(a)}"


def _tensors_differ(a: TensorValue, b: TensorValue, what: str) -> str:
    for name in ("dtype", "shape", "device", "requires_grad", "layout", "alias"):
        x, y = getattr(a, name), getattr(b, name)
        if x != y:
            return f"{what}: {name} {y or 'none'} instead of {x or 'none'}"
    if a.content == b.content:
        return ""
    one, other = a.value(), b.value()
    limit = tolerance_of(one.dtype)
    if one.dtype.is_floating_point and one.dtype.itemsize == 1:  # assert_close compares bits
        one, other = one.float(), other.float()
    try:
        assert_close(other, one, rtol=limit.rtol, atol=limit.atol, equal_nan=True)
    except AssertionError as error:
        worst = [line for line in str(error).splitlines() if "absolute" in line]
        return f"{what}: other values ({worst[0].strip() if worst else 'not equal'})"
    return ""


def _excused(a: Any, b: Any, nudged: Any) -> Any:
    """`b`, where it is about as far from `a` as `nudged` is, as `a` is."""
    if (
        isinstance(a, TensorValue)
        and isinstance(b, TensorValue)
        and isinstance(nudged, TensorValue)
    ):
        same = (a.dtype, a.shape) == (b.dtype, b.shape) == (nudged.dtype, nudged.shape)
        if not same or not a.content:
            return b
        x, y, z = a.value(), b.value(), nudged.value()
        if not tolerance_of(x.dtype).rtol or x.dtype.itemsize == 1:
            return b
        far, most = (float(d.abs().nan_to_num(0, 0, 0).max()) for d in (z - x, x))
        close = torch.isclose(x, y, rtol=0, atol=min(_NUDGES * far, _MOST * most), equal_nan=True)
        return replace(b, content=a.content) if bool(close.all()) else b
    if isinstance(a, Mapping) and isinstance(b, Mapping) and isinstance(nudged, Mapping):
        return {key: _excused(a.get(key), b[key], nudged.get(key)) for key in b}
    sequences = isinstance(b, tuple | list) and type(a) is type(b) is type(nudged)
    if sequences and len(a) == len(b) == len(nudged):
        return type(b)(map(_excused, a, b, nudged))
    return b


def _raised(a: str | None, b: str | None) -> str:
    if a == b:
        return ""
    if a is None:
        return f"it raises {_short(b, 300)}"
    return f"it does not raise {_short(a)}" + (f" but {_short(b, 300)}" if b else "")


def _without_zeros(
    a: Mapping[str, Any], b: Mapping[str, Any], assumes: dict[str, None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Gradients, without those of zero where the other program has none."""
    alone = {name for name in a.keys() ^ b.keys() if _is_zero(a.get(name, b.get(name)))}
    if alone:
        assumes[NO_GRADIENT] = None
    left, right = ({k: v for k, v in one.items() if k not in alone} for one in (a, b))
    return left, right


def _is_zero(gradient: Any) -> bool:
    return isinstance(gradient, TensorValue) and not gradient.value().count_nonzero()


def _outputs(a: Any, b: Any, steady: bool, assumes: dict[str, None]) -> tuple[Any, Any]:
    """Outputs of which the second are allowed to ask for gradients."""
    if isinstance(a, TensorValue) and isinstance(b, TensorValue):
        if b.requires_grad and not a.requires_grad:
            assumes[ASKS] = None
            a = replace(a, requires_grad=True)
        if not steady:  # what holds now and then, nobody can rely on
            a, b = replace(a, alias=""), replace(b, alias="")
        return a, b
    if isinstance(a, tuple | list) and type(a) is type(b) and len(a) == len(b):
        pairs = [_outputs(x, y, steady, assumes) for x, y in zip(a, b, strict=True)]
        return type(a)(x for x, _ in pairs), type(b)(y for _, y in pairs)
    return a, b


def _aliases(encoded: Any) -> tuple[str, ...]:
    """What all tensors share memory with, in order."""
    if isinstance(encoded, TensorValue):
        return (encoded.alias,)
    if isinstance(encoded, tuple | list):
        return tuple(name for item in encoded for name in _aliases(item))
    return ()


def _numbers(encoded: Any) -> Any:
    """`encoded` with the numbers of tensors without dimensions."""
    if isinstance(encoded, TensorValue) and encoded.shape == () and encoded.content:
        return encoded.value().item()
    if isinstance(encoded, Mapping):
        return {key: _numbers(value) for key, value in encoded.items()}
    if isinstance(encoded, tuple | list):
        return type(encoded)(_numbers(item) for item in encoded)
    return encoded


def _short(value: Any, most: int = 100) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) < most else text[: most - 1] + "…"
