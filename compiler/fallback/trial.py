"""A graph's compilation and first run, where they can do no harm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from fullgraph.compiler.fallback.check import Graph, Verdict, check, raises, said
from fullgraph.compiler.isolation import JobOutcome, choose_process, pause_openmp, run_isolated
from fullgraph.compiler.private import (
    dynamo_control_exceptions,
    hint_of_symbol,
    import_inductor,
    inductor_cache_dir,
    is_fake_tensor,
    keep_compiler_in_children,
    outside_compilation,
    save_compilation_metrics,
)


class Trial:
    """One rung tried on one graph: in a forked child where that is safe, else here on copies."""

    def __init__(
        self,
        eager: torch.fx.GraphModule,
        same_numbers: bool,
        strides: bool,
        seconds: float | None,
    ) -> None:
        self.eager = eager
        self._strides = strides
        self._same_numbers, self._seconds = same_numbers, seconds

    def compile_and_check(
        self,
        compiler: Graph,
        module: torch.fx.GraphModule,
        inputs: list[Any],
        known: Sequence[Any] | None,
    ) -> tuple[Verdict, Graph | None]:
        """What was found, and the compiled graph if nothing speaks against it.

        `known` are the inputs to run it on; without them it is only compiled.
        """

        def job() -> tuple[Verdict, Graph | None]:
            try:
                compiled = compiler(module, inputs)
            except dynamo_control_exceptions():
                raise
            except Exception as error:
                return Verdict("raises", raises(error)), None
            if known is None:
                return Verdict("unknown"), compiled
            with outside_compilation():
                return self._compare(compiled, known), compiled

        if not _can_fork():
            take_back = save_compilation_metrics()
            verdict, compiled = job()
            if verdict.fails:
                take_back()
            return verdict, None if verdict.fails else compiled
        import_inductor()
        verdict = _forked(lambda: job()[0], self._seconds)
        if verdict.fails:
            return verdict, None
        try:
            return verdict, compiler(module, inputs)
        except dynamo_control_exceptions():
            raise
        except Exception as error:
            return Verdict("raises", raises(error)), None

    def check(self, compiled: Graph, inputs: Sequence[Any]) -> Verdict:
        """Compare what was compiled before with eager."""
        if not _can_fork():
            return self._compare(compiled, inputs)
        return _forked(lambda: self._compare(compiled, inputs), self._seconds)

    def _compare(self, compiled: Graph, inputs: Sequence[Any]) -> Verdict:
        return check(
            self.eager, compiled, inputs, same_numbers=self._same_numbers, strides=self._strides
        )


def _can_fork() -> bool:
    return choose_process(())[0] == "fork" and pause_openmp()


def _forked(job: Callable[[], Verdict], seconds: float | None) -> Verdict:
    """What `job` says in a forked child that shares this process's compile cache."""
    threads = torch.get_num_threads()

    def child(emit: object) -> Verdict:
        torch.set_num_threads(threads)  # it is part of what is generated, and openmp rests
        try:
            return job()
        except dynamo_control_exceptions():
            return Verdict("unknown")

    try:
        with keep_compiler_in_children():
            outcome = run_isolated(
                child, seconds=seconds, where="fork", cache=inductor_cache_dir(load=True)
            )
    except OSError as error:
        return Verdict("unknown", f"no child could be forked: {error}")
    return _verdict(outcome, seconds)


def _verdict(outcome: JobOutcome[Verdict], seconds: float | None) -> Verdict:
    if outcome.value is not None:
        return outcome.value
    if outcome.status == "signal":
        if outcome.signal == "SIGKILL":
            return Verdict("unknown", "its check was killed, as when memory is short")
        return Verdict("crashes", f"crashes with {outcome.signal}")
    if outcome.status == "raised" and outcome.error is not None:
        return Verdict("raises", said(outcome.error.type, outcome.error.message))
    return Verdict("hangs", f"was not done after {seconds} seconds")


def numbers(inputs: Sequence[Any]) -> list[Any] | None:
    """The inputs of the call that is compiled, sizes as numbers; None if they are not known."""
    symbols = (torch.SymInt, torch.SymFloat, torch.SymBool)
    numbers = [hint_of_symbol(thing) if isinstance(thing, symbols) else thing for thing in inputs]
    unknown = (
        number is None or is_fake_tensor(number)
        for number, thing in zip(numbers, inputs, strict=True)
        if thing is not None
    )
    return None if any(unknown) else numbers
