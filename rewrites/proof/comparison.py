"""Comparison of two recorded behaviours, and the assumptions under which they are the same."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch.testing import assert_close

from fullgraph.compiler.numerics import SCALAR, tolerance_of
from fullgraph.rewrites.proof.behaviour import Behaviour, TensorValue
from fullgraph.rewrites.proof.proof import Check, ProofInput

NO_GRADIENT = "a gradient of zero is as good as none"
NEW_GRADIENT = "a result may ask for a gradient where it asked for none"
NO_BACKWARD = "no gradient is asked of it, which would draw random numbers"
OTHER_MESSAGE = "sizes that an operator refuses may be refused with another message"
FINITE_ORIGINAL = "its inputs are such that the original gives finite values"
GRAD_FN = "grad_fn"
"""In `Rewrite.exempts`: tensors that compiled code prints may lack `grad_fn=`."""
STATE_OF = "state of "
"""In `Rewrite.exempts`, before an attribute or global that compiled code need not set."""
RAISES = "raises "
"""In `Rewrite.exempts`, before what compiled code may raise in place of another exception."""
_GRAPH_ASSERTION = "RuntimeError: Runtime assertion failed for expression"
_OUT_OF_BOUNDS = re.compile(r"(?s)(IndexError: index )-?\d+( is out of bounds for dimension \d+).*")
"""An error of indexing: which index, and the user code that TorchDynamo adds, are no difference."""
_GRAD_FN = re.compile(r", (?:grad_fn=<\w*>|requires_grad=True)")
_TITLES = {
    "raised": "exceptions",
    "outputs": "outputs",
    "gradients": "gradients",
    "state": "state",
    "text": "text",
    "records": "logs and warnings",
    "randomness": "random numbers",
}
"""Title in reports of each compared attribute of a behaviour."""
_RESULTS = ("outputs", "gradients", "state")
_SENSITIVITY_FACTOR, _MAX_RELATIVE_DIFFERENCE = 8.0, 1e-3
"""Largest accepted difference, as a multiple of the change under a one-ulp perturbation of the
inputs, and relative to the greatest element."""


def compare_behaviours(
    old: Mapping[ProofInput, Behaviour],
    new: Mapping[ProofInput, Behaviour],
    *,
    numbers: bool = False,
    requires_gradient: bool = True,
    perturbed: Callable[[ProofInput], Behaviour | None] = lambda _: None,
    exempt: Collection[str] = (),
) -> list[Check]:
    """Return one check for each attribute of the behaviours that is not `exempt`.

    Some differences are accepted under an assumption, which `Check.assumes` then holds:
    - a gradient of zero instead of none, and a result that newly requires a gradient;
    - random numbers that only a backward draws, unless the program `requires_gradient`;
    - results on derived inputs for which the old code gives inf or NaN, if it gives finite values
      on the user's own inputs.

    With `numbers`, a 0-d tensor may replace a number. `perturbed` returns what the old code does on
    an input that is changed by one ulp; None if unknown. The farther this is from the old results,
    the farther the new results may be from them.
    """
    if GRAD_FN in exempt:
        old, new = ({c: _without_grad_fn(one) for c, one in runs.items()} for runs in (old, new))
    names = {one.removeprefix(STATE_OF) for one in exempt if one.startswith(STATE_OF)}
    if names:
        old, new = ({c: _without_state(b, names) for c, b in runs.items()} for runs in (old, new))
    allowed = {one.removeprefix(RAISES) for one in exempt if one.startswith(RAISES)}
    if allowed:
        new = {c: _with_exception_of(one, old.get(c), allowed) for c, one in new.items()}
    observed_aliases = {
        (case.backward, _aliases_of(one.outputs)) for case, one in old.items() if not one.raised
    }
    aliases_are_stable = len(observed_aliases) == len(
        {backward for backward, _ in observed_aliases}
    )

    def check(name: str, cases: Mapping[ProofInput, Behaviour], assumption: str = "") -> Check:
        made = _check_attribute(name, cases, new, numbers, aliases_are_stable, perturbed)
        assumes = (*made.assumes, assumption) if made.ok and assumption else made.assumes
        return replace(made, assumes=assumes)

    checks = {name: check(name, old) for name in _TITLES if name not in exempt}
    failed = [name for name, made in checks.items() if name in _RESULTS and not made.ok]
    if failed and all(is_finite(one) for case, one in old.items() if case.is_given):
        finite = {case: one for case, one in old.items() if is_finite(one)}
        if len(finite) < len(old):
            checks |= {name: check(name, finite, FINITE_ORIGINAL) for name in failed}
    if not requires_gradient and "randomness" in checks and not checks["randomness"].ok:
        forward = {case: one for case, one in old.items() if not case.backward}
        again = check("randomness", forward, NO_BACKWARD)
        checks["randomness"] = again if again.ok else checks["randomness"]
    return list(checks.values())


def _check_attribute(
    name: str,
    old: Mapping[ProofInput, Behaviour],
    new: Mapping[ProofInput, Behaviour],
    numbers: bool,
    aliases_are_stable: bool,
    perturbed: Callable[[ProofInput], Behaviour | None],
) -> Check:
    """Compare one attribute of the old and the new behaviours, `name`, such as "outputs".

    Aliases are compared only if `aliases_are_stable`. With `numbers`, a 0-d tensor may replace a
    number. `perturbed` returns what the old code does on slightly changed inputs (None if unknown):
    a difference that is about as small is accepted.
    """
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
                a, b = _scalars_to_numbers(a), _scalars_to_numbers(b)
            if name == "gradients":
                a, b = _drop_zero_gradients(a, b, assumes)
            if name == "outputs":
                a, b = _relax_outputs(a, b, aliases_are_stable, assumes)
            if name == "state":
                a = _relax_state(a, b, lambda: [one.state for one in old.values()], assumes)
            if name == "raised" and before.crashed and str(b).startswith(_GRAPH_ASSERTION):
                assumes[OTHER_MESSAGE] = None
                continue
            if name == "raised" and before.crashed:
                a, b = (one and _OUT_OF_BOUNDS.sub(r"\1…\2", one) for one in (a, b))
            detail = _exception_difference(a, b) if name == "raised" else difference(a, b, title)
            if detail and name in _RESULTS and (moved := perturbed(case)):
                detail = difference(
                    a, _replace_if_within_sensitivity(a, b, getattr(moved, name)), title
                )
        if detail:
            return Check(title, False, f"{detail} (on {case})")
    return Check(title, True, assumes=tuple(assumes))


def difference(a: object, b: object, what: str) -> str:
    """Return how `b` differs from `a`: "outputs: 3 instead of 2"; "" if it does not.

    `what` names what is compared: "outputs".
    """
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
    return f"{what}: {_abbreviate(b)} instead of {_abbreviate(a)}"


def _tensors_differ(a: TensorValue, b: TensorValue, what: str) -> str:
    """Describe how two tensors differ in metadata or values; "" if they do not."""
    for name in ("dtype", "shape", "device", "requires_grad", "layout", "alias"):
        x, y = getattr(a, name), getattr(b, name)
        if x != y:
            return f"{what}: {name} {y or 'none'} instead of {x or 'none'}"
    if a.content == b.content and a.digest == b.digest:
        return ""
    one, other = a.value(), b.value()
    limit = tolerance_of(one.dtype)
    if not limit.rtol and a.digest != b.digest:
        return f"{what}: other values (a digest of {one.dtype} differs)"
    if one.dtype.is_floating_point and one.dtype.itemsize == 1:  # assert_close compares bits
        one, other = one.float(), other.float()
    try:
        assert_close(other, one, rtol=limit.rtol, atol=limit.atol, equal_nan=True)
    except AssertionError as error:
        worst = [line for line in str(error).splitlines() if "absolute" in line]
        return f"{what}: other values ({worst[0].strip() if worst else 'not equal'})"
    return ""


def _replace_if_within_sensitivity(a: object, b: object, perturbed: object) -> object:
    """Return `b`, the new result, with the old result's tensors (`a`) where they are close.

    `perturbed` is the result of the old code on slightly changed inputs. Two tensors are close if
    they differ about as little as those of `perturbed` and `a` do.
    """
    if (
        isinstance(a, TensorValue)
        and isinstance(b, TensorValue)
        and isinstance(perturbed, TensorValue)
    ):
        same = (a.dtype, a.shape) == (b.dtype, b.shape) == (perturbed.dtype, perturbed.shape)
        if not same or not a.content:
            return b
        x, y, z = a.value(), b.value(), perturbed.value()
        if not tolerance_of(x.dtype).rtol or x.dtype.itemsize == 1:
            return b
        far, most = (float(d.abs().nan_to_num(0, 0, 0).max()) for d in (z - x, x))
        close = torch.isclose(
            x,
            y,
            rtol=0,
            atol=min(_SENSITIVITY_FACTOR * far, _MAX_RELATIVE_DIFFERENCE * most),
            equal_nan=True,
        )
        return replace(b, content=a.content, digest=a.digest) if bool(close.all()) else b
    if isinstance(a, Mapping) and isinstance(b, Mapping) and isinstance(perturbed, Mapping):
        return {
            key: _replace_if_within_sensitivity(a.get(key), b[key], perturbed.get(key)) for key in b
        }
    if (
        isinstance(a, tuple | list)
        and isinstance(b, tuple | list)
        and isinstance(perturbed, tuple | list)
        and type(a) is type(b) is type(perturbed)
        and len(a) == len(b) == len(perturbed)
    ):
        return type(b)(map(_replace_if_within_sensitivity, a, b, perturbed))
    return b


def _exception_difference(a: str | None, b: str | None) -> str:
    """Describe how two exceptions differ; "" if they do not."""
    if a == b:
        return ""
    if a is None:
        return f"it raises {_abbreviate(b, 300)}"
    return f"it does not raise {_abbreviate(a)}" + (f" but {_abbreviate(b, 300)}" if b else "")


def _drop_zero_gradients(
    a: Mapping[str, object], b: Mapping[str, object], assumes: dict[str, None]
) -> tuple[dict[str, object], dict[str, object]]:
    """Return both mappings of gradients without the zero gradients that only one of them has.

    If there are such gradients, the assumption about them is added to `assumes`.
    """
    alone = {name for name in a.keys() ^ b.keys() if _is_zero(a.get(name, b.get(name)))}
    if alone:
        assumes[NO_GRADIENT] = None
    left, right = ({k: v for k, v in one.items() if k not in alone} for one in (a, b))
    return left, right


def is_finite(behaviour: Behaviour) -> bool:
    """Return whether a run raised nothing, and its outputs and gradients are finite."""
    results = [behaviour.outputs, *behaviour.gradients.values()]
    return behaviour.raised is None and all(map(_is_finite_value, results))


def _is_finite_value(encoded: object) -> bool:
    if isinstance(encoded, TensorValue):
        return bool(encoded.value().isfinite().all())
    if isinstance(encoded, tuple | list):
        return all(map(_is_finite_value, encoded))
    return not isinstance(encoded, float) or math.isfinite(encoded)


def _without_grad_fn(behaviour: Behaviour) -> Behaviour:
    """Return `behaviour` without "grad_fn=<…>" and "requires_grad=True" in prints and logs."""
    records = tuple(_GRAD_FN.sub("", record) for record in behaviour.records)
    return replace(behaviour, text=_GRAD_FN.sub("", behaviour.text), records=records)


def _without_state(behaviour: Behaviour, names: Collection[str]) -> Behaviour:
    """Return `behaviour` without the attributes and globals that have one of `names`."""
    state: dict[str, object] = {}
    for where, held in behaviour.state.items():
        match held:
            case (str(kind), list(items)) if where.startswith("self"):
                state[where] = kind, [item for item in items if item[0] not in names]
            case _ if where.removeprefix("global ") not in names:
                state[where] = held
    return replace(behaviour, state=state)


def _with_exception_of(
    behaviour: Behaviour, other: Behaviour | None, allowed: Collection[str]
) -> Behaviour:
    """Return `behaviour` as raising what `other` raised, if it raised one of `allowed` instead."""
    if other is None or other.raised is None or behaviour.raised not in allowed:
        return behaviour
    return replace(behaviour, raised=other.raised)


def _is_zero(gradient: object) -> bool:
    return isinstance(gradient, TensorValue) and not gradient.value().count_nonzero()


def _relax_outputs(
    a: object, b: object, aliases_are_stable: bool, assumes: dict[str, None]
) -> tuple[object, object]:
    """Return both outputs with the differences that are accepted removed.

    An output may newly require a gradient; the assumption on it is added to `assumes`. Unless
    `aliases_are_stable`, aliases are removed, because in the old code they differ between inputs.
    """
    if isinstance(a, TensorValue) and isinstance(b, TensorValue):
        if b.requires_grad and not a.requires_grad:
            assumes[NEW_GRADIENT] = None
            a = replace(a, requires_grad=True)
        if not aliases_are_stable:  # what holds now and then, nobody can rely on
            a, b = replace(a, alias=""), replace(b, alias="")
        return a, b
    if isinstance(a, tuple | list) and type(a) is type(b) and len(a) == len(b):
        pairs = [
            _relax_outputs(x, y, aliases_are_stable, assumes) for x, y in zip(a, b, strict=True)
        ]
        return type(a)(x for x, _ in pairs), type(b)(y for _, y in pairs)
    return a, b


def _relax_state(
    a: object, b: object, runs: Callable[[], Sequence[object]], assumes: dict[str, None]
) -> object:
    """Return the state `a`, with the gradients that `b` newly requires and other runs do, too.

    `runs` returns the states of all runs. The assumption on the gradients is added to `assumes`.
    """
    if isinstance(a, TensorValue) and isinstance(b, TensorValue):
        if a.requires_grad or not b.requires_grad:
            return a
        known = any(isinstance(one, TensorValue) and one.requires_grad for one in runs())
        return _relax_outputs(a, b, True, assumes)[0] if known else a
    if isinstance(a, Mapping) and isinstance(b, Mapping):

        def values_of(key: object) -> list[object]:
            return [one.get(key) for one in runs() if isinstance(one, Mapping)]

        return {k: _relax_state(v, b.get(k), partial(values_of, k), assumes) for k, v in a.items()}
    if isinstance(a, tuple | list) and type(a) is type(b) and len(a) == len(b):

        def items_at(index: int) -> list[object]:
            alike = (o for o in runs() if isinstance(o, tuple | list) and len(o) == len(a))
            return [one[index] for one in alike]

        pairs = enumerate(zip(a, b, strict=True))
        return type(a)(_relax_state(x, y, partial(items_at, i), assumes) for i, (x, y) in pairs)
    return a


def _aliases_of(encoded: object) -> tuple[str, ...]:
    """Return `TensorValue.alias` of each tensor, in order."""
    if isinstance(encoded, TensorValue):
        return (encoded.alias,)
    if isinstance(encoded, tuple | list):
        return tuple(name for item in encoded for name in _aliases_of(item))
    return ()


def _scalars_to_numbers(encoded: object) -> object:
    """Return `encoded` with 0-d tensors replaced by their numbers."""
    if isinstance(encoded, TensorValue) and encoded.shape == () and encoded.content:
        return encoded.value().item()
    if isinstance(encoded, Mapping):
        return {key: _scalars_to_numbers(value) for key, value in encoded.items()}
    if isinstance(encoded, tuple | list):
        return type(encoded)(_scalars_to_numbers(item) for item in encoded)
    return encoded


def _abbreviate(value: object, most: int = 100) -> str:
    """Return the text of a value on one line, cut off at `most` characters."""
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) < most else text[: most - 1] + "…"
