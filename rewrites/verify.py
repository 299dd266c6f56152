"""The proof: rewritten code does what the original does, in eager and compiled."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch.testing import assert_close

from fullgraph.compiler import isolation
from fullgraph.compiler.events import Position
from fullgraph.compiler.outcome import Outcome
from fullgraph.compiler.overlay import overlaid
from fullgraph.compiler.private.eagerly import eagerly
from fullgraph.compiler.program import Program
from fullgraph.compiler.recode import ORIGINAL, Edit, recoded
from fullgraph.compiler.snapshot import snapshot
from fullgraph.compiler.source import read
from fullgraph.rewrites import inputs
from fullgraph.rewrites.behaviour import Behaviour, Tensor, behave
from fullgraph.rewrites.proof import Check, Proof, State

CHOSEN = 16
"""How many inputs the two programs are compared on."""
COMPILED = 3
"""How many of these are also run compiled."""
_SPECIAL = ("nan", "inf", "finite", "assert", "raise")
_TOLERANCE = {
    "float64": (1e-9, 1e-9),
    "complex128": (1e-9, 1e-9),
    "float32": (1e-4, 1e-5),
    "complex64": (1e-4, 1e-5),
    "float16": (1e-2, 1e-3),
    "bfloat16": (3e-2, 1e-2),
}
"""Relative and absolute, where not the same operations run."""


@dataclass(frozen=True)
class Case:
    """One input that was tried: which variant, and whether with gradients."""

    number: int
    backward: bool


@dataclass
class Run:
    """What a program did in some cases."""

    behaviours: dict[Case, Behaviour] = field(default_factory=dict)
    sides: dict[int, set[bool]] = field(default_factory=dict)
    """For each test, by number, the sides it took."""


def prove(
    subject: Program,
    texts: Mapping[str, str],
    *,
    base: Mapping[str, str] | None = None,
    tests: Sequence[Position] = (),
    seconds: float = 120.0,
    inductor: bool = False,
    numbers: bool = False,
    strict: bool = True,
) -> Proof:
    """Whether the program does with `texts` (by file) what it does with `base`.

    Both run in eager, isolated, on the user's inputs and on variants that take both sides of
    `tests` (positions in `base`), with and without a backward; outputs, gradients, state,
    exceptions, printed text, log records, warnings and random numbers are compared. Then the new
    code runs under torch.compile, and under Inductor if asked, against its own eager run. With
    `numbers` a tensor without dimensions may stand for a number. Where it is not `strict`, derived
    inputs do not count on which an operator of the original fails: nobody wrote that error down.
    """
    base = base or {}
    limit = time.monotonic() + seconds
    with overlaid(base):
        titles = [_text(test) for test in tests]
        lines = (*titles, *_sources(base, texts))
        special = any(word in line for word in _SPECIAL for line in lines)
        old = _isolated(subject, seconds, lambda: _explore(subject, tests, special, limit, strict))
    if old.value is None:
        return _failed("eager", f"the original did not run: {_ended(old)}")
    cases = list(old.value.behaviours)
    sides = tuple((title, _sides(old.value.sides.get(n, set()))) for n, title in enumerate(titles))
    with overlaid(texts) as overlay:
        if overlay.refused:
            return _failed("overlay", overlay.refused[0])
        new = _isolated(subject, seconds, lambda: _replay(subject, cases, special, None))
        if new.value is None:
            return _failed("eager", f"the new code did not run: {_ended(new)}")
        checks = compare(old.value.behaviours, new.value.behaviours, numbers=numbers)
        if all(check.ok for check in checks):
            few = [case for case in cases if not case.backward][:COMPILED]
            for backend, some in (("eager", few), ("inductor", few[:1] if inductor else [])):
                if some:
                    job = partial(_replay, subject, some, special, backend)
                    done = _isolated(subject, seconds, job)
                    checks.append(_compiled(backend, done, new.value.behaviours))
    ok = all(check.ok for check in checks)
    seen = all(side == "both" for _, side in sides)
    state = State.FAILED if not ok else State.PROVED if seen else State.ONE_SIDE
    return Proof(state, tuple(checks), len({case.number for case in cases}), sides)


def compare(
    old: Mapping[Case, Behaviour],
    new: Mapping[Case, Behaviour],
    *,
    exact: bool = False,
    numbers: bool = False,
) -> list[Check]:
    """One check for each thing that a run shows."""
    checks = []
    for name in ("alias", "requires_grad"):
        told = {(c.backward, _all(name, b.outputs)) for c, b in old.items() if b.raised is None}
        if len(told) > len({backward for backward, _ in told}):
            # what holds now and then, nobody can rely on
            old = {case: replace(b, outputs=_without(name, b.outputs)) for case, b in old.items()}
            new = {case: replace(b, outputs=_without(name, b.outputs)) for case, b in new.items()}
    reached = {name for behaviour in old.values() for name in behaviour.gradients}
    for title in ("outputs", "gradients", "state", "exceptions", "text", "records", "randomness"):
        name = "raised" if title == "exceptions" else title
        detail = ""
        for case, before in old.items():
            after = new.get(case)
            if after is None:
                detail = "the new code did not get that far"
            elif title == "gradients" and before.raised is not None:
                continue
            else:
                a, b = getattr(before, name), getattr(after, name)
                if title == "gradients":
                    a, b = _gradients(a, reached), _gradients(b, reached)
                if numbers and title in ("outputs", "state"):
                    a, b = _numbers(a), _numbers(b)
                detail = difference(a, b, title, exact)
            if detail:
                detail += _on(case)
                break
        checks.append(Check(_TITLES.get(title, title), not detail, detail))
    return checks


_TITLES = {"randomness": "random numbers", "records": "logs and warnings"}


def _all(name: str, encoded: Any) -> tuple[Any, ...]:
    """One attribute of all tensors, in order."""
    if isinstance(encoded, Tensor):
        return (getattr(encoded, name),)
    if isinstance(encoded, tuple | list):
        return tuple(value for item in encoded for value in _all(name, item))
    return ()


def _without(name: str, encoded: Any) -> Any:
    """`encoded` with one attribute of all tensors empty."""
    if isinstance(encoded, Tensor):
        return replace(encoded, **{name: type(getattr(encoded, name))()})
    if isinstance(encoded, tuple | list):
        return type(encoded)(_without(name, item) for item in encoded)
    return encoded


def _gradients(found: Mapping[str, Any], reached: Iterable[str]) -> dict[str, Any]:
    """The gradients that are not zero; of what some input reaches, none is as good as zero."""
    return {
        name: gradient
        for name, gradient in found.items()
        if name not in reached or not isinstance(gradient, Tensor) or any(gradient.content)
    }


def _numbers(encoded: Any) -> Any:
    """`encoded` with the numbers of tensors without dimensions."""
    if isinstance(encoded, Tensor) and encoded.shape == () and encoded.content:
        return encoded.value().item()
    if isinstance(encoded, Mapping):
        return {key: _numbers(value) for key, value in encoded.items()}
    if isinstance(encoded, tuple | list):
        return type(encoded)(_numbers(item) for item in encoded)
    return encoded


def difference(a: Any, b: Any, what: str, exact: bool = False) -> str:
    """How `b` differs from `a`, in half a sentence; "" if it does not."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return _tensors_differ(a, b, what, exact)
    if isinstance(a, float) and isinstance(b, float):
        close = a == b or abs(a - b) <= 1e-5 * max(1.0, abs(a)) or (a != a and b != b)
        return "" if close else f"{what}: {b!r} instead of {a!r}"
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if a.keys() != b.keys():
            odd = sorted(set(a) ^ set(b), key=str)[0]
            return f"{what}: {odd} is there in one of them only"
        return next(filter(None, (difference(a[k], b[k], f"{k}", exact) for k in a)), "")
    if isinstance(a, tuple | list) and type(a) is type(b):
        if len(a) != len(b):
            return f"{what}: {len(b)} items instead of {len(a)}"
        pairs = zip(a, b, strict=True)
        return next(filter(None, (difference(x, y, what, exact) for x, y in pairs)), "")
    if type(a) is type(b) and a == b:
        return ""
    return f"{what}: {_short(b)} instead of {_short(a)}"


def _tensors_differ(a: Tensor, b: Tensor, what: str, exact: bool) -> str:
    for name in ("dtype", "shape", "device", "requires_grad", "layout", "alias"):
        x, y = getattr(a, name), getattr(b, name)
        if x != y:
            return f"{what}: {name} {y or 'none'} instead of {x or 'none'}"
    if a.content == b.content:
        return ""
    relative, absolute = (0.0, 0.0) if exact else _TOLERANCE.get(a.dtype, (0.0, 0.0))
    try:
        assert_close(b.value(), a.value(), rtol=relative, atol=absolute, equal_nan=True)
    except AssertionError as error:
        worst = [line for line in str(error).splitlines() if "absolute" in line]
        return f"{what}: other values ({worst[0].strip() if worst else 'not equal'})"
    return ""


# What runs in the isolated child.


def _explore(
    subject: Program, tests: Sequence[Position], special: bool, limit: float, strict: bool
) -> Run:
    """The original on the user's inputs, and on those variants that show something else."""
    run = Run()
    before = snapshot(subject.objects())
    edits, tapes = _taped(tests)
    shown: set[Any] = set()
    start = time.monotonic()
    with recoded(edits):
        for number, _ in enumerate(inputs.variants(subject.calls, special=special)):
            for tape in tapes:
                tape.clear()
            behaviour = _behaviour(subject, Case(number, False), special, None)
            before.restore()
            taken = tuple(frozenset(tape) for tape in tapes)
            for index, side in enumerate(taken):
                run.sides.setdefault(index, set()).update(side)
            if number and behaviour.crashed and not strict:
                continue
            kind = (taken, behaviour.raised)
            if number == 0 or kind not in shown or number % 4 == 1:
                shown.add(kind)
                run.behaviours[Case(number, False)] = behaviour
                case = Case(number, True)
                if torch.is_grad_enabled():
                    asked = _behaviour(subject, case, special, None)
                    before.restore()
                    if asked.raised == behaviour.raised:  # else it takes no gradients at all
                        run.behaviours[case] = asked
            settled = all(len(run.sides.get(i, ())) == 2 for i in range(len(tapes)))
            enough = len(run.behaviours) >= 2 * CHOSEN or (settled and number > CHOSEN)
            half = time.monotonic() - start > max(2.0, (limit - start) / 4)
            if enough or half:
                break
    return run


def _replay(subject: Program, cases: Sequence[Case], special: bool, backend: str | None) -> Run:
    """The program in these cases: in eager, or compiled for a backend."""
    run = Run()
    before = snapshot(subject.objects())
    for case in cases:
        run.behaviours[case] = _behaviour(subject, case, special, backend)
        before.restore()
    return run


def _behaviour(subject: Program, case: Case, special: bool, backend: str | None) -> Behaviour:
    variants = inputs.variants(subject.calls, special=special)
    calls = next(itertools.islice(variants, case.number, None))
    if case.backward:
        inputs.asking(calls)
    if backend is None:
        with eagerly():
            return behave(subject, subject.target, calls, backward=case.backward, seed=case.number)
    options: dict[str, Any] | None = {"fallback_random": True} if backend == "inductor" else None
    compiled = torch.compile(subject.target, backend=backend, options=options)
    return behave(subject, compiled, calls, backward=case.backward, seed=case.number)


def _taped(tests: Sequence[Position]) -> tuple[list[Edit], list[set[bool]]]:
    """Edits that note the sides of tests, and where they note them."""
    tapes: list[set[bool]] = [set() for _ in tests]
    edits = []
    for number, (test, tape) in enumerate(zip(tests, tapes, strict=True)):
        name = f"_fullgraph_side_{number}"
        edits.append(Edit(test, f"{name}({ORIGINAL})", {name: _noting(tape)}))
    return edits, tapes


def _noting(tape: set[bool]) -> Callable[[Any], Any]:
    def note(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.numel() != 1:
            tape.update(bool(side) for side in value.bool().flatten().unique())
        else:
            tape.add(bool(value))
        return value

    return note


# What is made of it.


def _isolated(subject: Program, seconds: float, job: Callable[[], Run]) -> Outcome[Run]:
    return isolation.run(lambda emit: job(), objects=subject.objects(), seconds=seconds)


def _compiled(backend: str, outcome: Outcome[Run], eager: Mapping[Case, Behaviour]) -> Check:
    """Whether compiled code did what it does in eager."""
    title = "inductor" if backend == "inductor" else "compiled"
    if outcome.value is None:
        return Check(title, False, f"{title} it does not run: {_ended(outcome)}")
    few = {case: eager[case] for case in outcome.value.behaviours}
    for check in compare(few, outcome.value.behaviours):
        if not check.ok and check.name != "logs and warnings":
            return Check(title, False, f"{title} it does something else: {check.detail}")
    return Check(title, True)


def _sources(base: Mapping[str, str], texts: Mapping[str, str]) -> Iterator[str]:
    """The lines that the edits touch, in both versions."""
    for file, text in texts.items():
        source = read(file)
        old = base.get(file) or (source.text if source else "")
        yield from set(old.splitlines()) ^ set(text.splitlines())


def _text(test: Position) -> str:
    source = read(test.file)
    node = source.node(test) if source else None
    return source.segment(node) if source and node else ""


def _sides(seen: set[bool]) -> str:
    return {0: "never evaluated", 2: "both"}.get(len(seen), f"{next(iter(seen), None)}".lower())


def _on(case: Case) -> str:
    which = "the given inputs" if case.number == 0 else f"derived inputs, number {case.number}"
    return f" (on {which}{', with a backward' if case.backward else ''})"


def _ended(outcome: Outcome[Any]) -> str:
    if outcome.error is not None:
        return f"{outcome.error.type}: {outcome.error.message}".partition("\n")[0]
    return str(outcome.signal or outcome.status)


def _failed(title: str, detail: str) -> Proof:
    return Proof(State.FAILED, (Check(title, False, detail),))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 100 else text[:99] + "…"
