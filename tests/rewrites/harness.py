"""Asking and applying the rules in tests: on real torch, without the proof."""

from __future__ import annotations

import ast
import copy
import importlib.util
import itertools
import random
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
import torch
from torch.testing import assert_close

import fullgraph.diagnose.explain as explaining
from fullgraph.compiler.events import Position
from fullgraph.compiler.isolation import (
    JobOutcome,
    preload_dynamic_shapes,
    preload_dynamo,
    run_isolated,
    snapshot,
)
from fullgraph.compiler.isolation.job_outcome import describe_exception
from fullgraph.compiler.observe import FunctionValues, observe_functions
from fullgraph.compiler.program import Program, parse_program
from fullgraph.compiler.sources import find_live_functions, index_live_functions, override_sources
from fullgraph.diagnose.explain import explain
from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.trace import IsolatedJob
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.fix import apply_offers, places_to_observe, propose
from fullgraph.rewrites.fix.offers import Offer
from fullgraph.rewrites.fix.program_facts import ProgramFacts, observe_resized
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite
from fullgraph.rewrites.rules import all_rules
from fullgraph.rewrites.source import parse_document
from tests.recorded import current, digest_of

T = TypeVar("T")
_numbers = itertools.count()
_folder = tempfile.TemporaryDirectory(prefix="fullgraph-test-")  # gone when this process ends


def imported(source: str, folder: Path | None = None) -> ModuleType:
    """`source` as a module of its own, from a file of its own."""
    name = f"rewritten_{next(_numbers)}"
    path = (folder or Path(tempfile.mkdtemp(dir=_folder.name))) / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@dataclass
class Outcome:
    """What the rules made of a source."""

    original: str
    source: str
    args: tuple[Any, ...]
    before: Explanation
    after: Explanation
    rules: list[str] = field(default_factory=list)
    applicability: list[Applicability] = field(default_factory=list)
    assumes: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def check(
        self, *more: tuple[Any, ...], exact: bool = False, zero_is_none: bool = False
    ) -> None:
        """Assert one graph in both modes, and equal outputs and gradients on all inputs.

        `more` are further tuples of arguments, for the other sides of branches. With
        `zero_is_none` a gradient of zero may take the place of none.
        """
        assert self.rules, (self.before, self.refusals)
        assert self.after.default.ok, self.after
        assert self.after.fullgraph.ok, self.after
        for args in (self.args, *more):
            expected = _values(self.original, args)
            actual = _values(self.source, args)
            tolerance = {"rtol": 0, "atol": 0} if exact else {}
            if zero_is_none:
                pairs = zip(actual[1], expected[1], strict=True)
                new = [None if b is None and a is not None and not a.any() else a for a, b in pairs]
                actual = actual[0], new
            assert_close(actual, expected, equal_nan=True, **tolerance)


def _needs_no_proof(offer: Offer) -> bool:
    """Whether an offer is right by itself, and not only where a proof finds it so."""
    return not offer.rewrite.needs_both_branches


@index_live_functions()
def rewritten(source: str, *args: Any, kwargs: dict[str, Any] | None = None) -> Outcome:
    """Explain `f` or `Model()` of `source` on `args`, and apply rules until nothing changes.

    What the compiler and the runs in eager say of each text is recorded (`tests/recorded`).
    """
    program = RecordedProgram(source, args, kwargs)
    before, facts = program.explain(source)
    outcome = Outcome(source, source, args, before, before)
    text, last = source, before
    for _ in range(8):
        if not last.causes:
            break
        with override_sources({program.file: text} if text != source else {}):
            found = propose(last.causes, facts, entry=program.position)
        outcome.refusals += [reason for one in found for reason in one.refusals]
        firsts = [next(filter(_needs_no_proof, one.offers), None) for one in found]
        firsts = [x for x in firsts if x and x.rewrite.applicability is not Applicability.DISPLAY]
        texts, taken = apply_offers(firsts)
        if not taken or texts[program.file] == text:
            break
        text = texts[program.file]
        ast.parse(text)
        outcome.rules += [offer.rule.code for offer in taken]
        outcome.applicability += [offer.rewrite.applicability for offer in taken]
        outcome.assumes += [clause for offer in taken for clause in offer.rewrite.assumes]
        last, facts = program.explain(text)
    outcome.source, outcome.after = text, last
    return outcome


def rewritten_together(sources: Sequence[str], inputs: Sequence[tuple[Any, ...]]) -> list[Outcome]:
    """Do as `rewritten` does with several functions `f`, called one after the other by one program.

    They have the same lines above `f`. Each gets an outcome with its own source and arguments; what
    else it tells is of the program.
    """
    heads, functions = zip(*(source.split("def f(", 1) for source in sources), strict=True)
    (head,) = {*heads}
    calls = ", ".join(f"f{n}(*inputs[{n}])" for n, _ in enumerate(functions))
    parts = [f"def f{n}({function}\n\n" for n, function in enumerate(functions)]
    whole = rewritten(f"{head}{''.join(parts)}def f(*inputs):\n    return [{calls}]\n", *inputs)
    new_head, *new, _ = re.split(r"^def f\d*\(", whole.source, flags=re.MULTILINE)
    return [
        replace(
            whole,
            original=source,
            source=new_head + "def f(" + function.removesuffix("\n\n"),
            args=args,
        )
        for source, function, args in zip(sources, new, inputs, strict=True)
    ]


class RecordedProgram:
    """A program in a file of its own, with what runs of it and of its edited texts showed."""

    def __init__(self, source: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> None:
        module = imported(source)
        self.file, self._name = str(module.__file__), module.__name__
        self._module, self._source, self._args, self._kwargs = module, source, args, kwargs
        self._id = digest_of(source, args, kwargs)
        find_live_functions([self.file])  # known at once while it is young, and to the children

    @cached_property
    def _subject(self) -> Any:
        return _subject(self._module)

    @property
    def position(self) -> Position | None:
        """Where the compiled function is defined."""
        return parse_program(self._subject, self._args, kwargs=self._kwargs).position

    def explain(self, text: str) -> tuple[Explanation, ProgramFacts]:
        """Return the explanation of an edited text, and the facts that rules ask for."""

        def run(emit: object) -> tuple[Explanation, FunctionValues]:
            explaining.isolate, explaining.isolate_together = _run_here, _run_all_here
            explained = explain(self._subject, self._args, kwargs=self._kwargs, unmask=False)
            found = _without_prose(explained)
            return found, self._observe(places(found)) if found.causes else FunctionValues()

        def resized(emit: object) -> tuple[FunctionValues, ...]:
            program = parse_program(self._subject, self._args, kwargs=self._kwargs)
            return observe_resized(program, places(found))

        def places(found: Explanation) -> tuple[Position, ...]:
            return tuple(places_to_observe(found.causes))

        found, values = self._ask("explain", text, run)
        return found, ProgramFacts(values, lambda: self._ask("resized", text, resized))

    def values_at(self, place: Position) -> FunctionValues:
        """Return the values of the function around a place in a run in eager."""
        what = f"values {place.line}:{place.column}"
        return self._ask(what, self._source, lambda emit: self._observe([place]))

    def _observe(self, places: Sequence[Position]) -> FunctionValues:
        return observe_functions(lambda: self._subject(*self._args, **self._kwargs or {}), places)

    def _ask(self, what: str, text: str, run: Callable[[object], T]) -> T:
        """Return what is recorded of an edited text, or else what `run` returns in a child."""

        def run_seeded(emit: object) -> T:
            random.seed(0)  # Python seeds it anew in each fork
            return run(emit)

        def run_for_real() -> T:
            preload_dynamo()
            preload_dynamic_shapes()
            with override_sources({self.file: text} if text != self._source else {}) as overlay:
                assert not overlay.refused, overlay.refused
                ended = run_isolated(run_seeded)
            if ended.status != "ok":
                raise AssertionError(ended.error.traceback if ended.error else ended)
            return ended.value

        if re.search(r"\brandom\.", self._source):
            return run_for_real()  # what is captured depends on the numbers that are drawn
        names = {self.file: "{file}", self._name: "{module}"}
        edited = "" if text == self._source else digest_of(text.replace(self._name, "{module}"))
        return current().answer(self._id, f"{what} {edited}".strip(), run_for_real, names)


def _without_prose(explanation: Explanation) -> Explanation:
    """Return what rules and tests read of an explanation."""
    causes = tuple(
        replace(
            cause, source=(), message="", advice=(), graphs=(), next_graph=None, saving=None, url=""
        )
        for cause in explanation.causes
    )
    return Explanation(
        "",
        explanation.target,
        explanation.backend,
        explanation.verdict,
        explanation.default,
        explanation.fullgraph,
        causes,
        fallbacks=tuple(replace(one, advice=()) for one in explanation.fallbacks),
        crashes=tuple(replace(one, traceback="") for one in explanation.crashes),
        error=explanation.error,
    )


def _run_all_here(
    program: Program, jobs: Sequence[IsolatedJob[object]], seconds: float | None = None
) -> list[JobOutcome[object]]:
    return [_run_here(program, job) for job in jobs]


def _run_here(
    program: Program, job: IsolatedJob[object], seconds: float | None = None
) -> JobOutcome[object]:
    """Run a job of `explain` in this child, and restore the program and Dynamo."""
    before = snapshot(program.objects())
    try:
        return JobOutcome("ok", "process", 0.0, value=job(lambda event: None, False))
    except Exception as error:
        return JobOutcome("raised", "process", 0.0, error=describe_exception(error))
    finally:
        before.restore()
        torch._dynamo.reset()


def offered(
    source: str, expression: str, category: str, *args: Any, rule: str = "", shorter: bool = False
) -> tuple[str, list[Rewrite], list[str]]:
    """Ask every rule about the first `expression` in `source`, with facts of one run on `args`.

    Returns the text with the first rewrite applied ("" if there is none), the rewrites, and the
    reasons of refusals. Without `args` nothing is run, and no fact is known. `rule` is the code of
    the only rule to ask. With `shorter`, the rewrites are those that stand beside a longer one.
    """
    start = source.index(expression)
    line = source.count("\n", 0, start) + 1
    column = len(source[source.rfind("\n", 0, start) + 1 : start].encode())
    last = line + expression.count("\n")
    tail = expression.rpartition("\n")[2]
    end = len(tail.encode()) + (column if last == line else 0)
    return offered_at(
        source, (line, column, last, end), category, *args, rule=rule, shorter=shorter
    )


@index_live_functions()
def offered_at(
    source: str,
    span: tuple[int, int, int, int],
    category: str,
    *args: Any,
    rule: str = "",
    shorter: bool = False,
) -> tuple[str, list[Rewrite], list[str]]:
    """Do as `offered` does with the expression between (line, column) and (last line, end)."""
    program = RecordedProgram(source, args, None)
    document = parse_document(program.file, source)
    place = Position(program.file, *span)
    facts = program.values_at(place) if args else FunctionValues()
    node = document.node(place)
    assert node is not None, f"{span} is no node"
    site = Site(document, node, category, facts)
    asked = [one for one in all_rules() if category in one.categories and one.code.startswith(rule)]
    answers = [one.answer(site) for one in asked]
    rewrites = [a for a in answers if isinstance(a, Rewrite) and a.replacements]  # no ideas
    if shorter:
        rewrites = [one.shorter for one in rewrites if one.shorter is not None]
    rewrites = [a for a in rewrites if rule or not a.needs_both_branches]
    refusals = [answer.reason for answer in answers if isinstance(answer, Refusal)]
    text = document.with_edits(rewrites[0].replacements, rewrites[0].imports) if rewrites else ""
    return text, rewrites, refusals


def _subject(module: ModuleType) -> Any:
    if hasattr(module, "f"):
        return module.f
    torch.manual_seed(0)
    return module.Model()


def _values(source: str, args: tuple[Any, ...]) -> Any:
    """The outputs and gradients of a fresh import of `source` on copies of `args`."""
    subject = _subject(imported(source))
    args = copy.deepcopy(args)
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    output = subject(*args)
    leaves = [x for x in args if isinstance(x, torch.Tensor) and x.requires_grad]
    if isinstance(subject, torch.nn.Module):
        leaves += list(subject.parameters())
    outputs = output if isinstance(output, tuple | list) else (output,)
    sums = [o.sum() for o in outputs if isinstance(o, torch.Tensor) and o.requires_grad]
    if leaves and sums:
        sum(sums).backward()
    return output, [leaf.grad for leaf in leaves]
