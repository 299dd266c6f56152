"""Compiles a graph and runs it once in isolation, to compare it with eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from fullgraph.compiler.fallback.graph_check import (
    GraphFn,
    GraphVerdict,
    check_graph,
    describe_error,
    describe_raised,
)
from fullgraph.compiler.isolation import JobOutcome, choose_process, pause_openmp, run_isolated
from fullgraph.compiler.private import (
    copy_graph_module,
    draw_eager_random_numbers,
    dynamo_control_exceptions,
    hint_of_symbol,
    import_inductor,
    inductor_cache_dir,
    is_fake_tensor,
    keep_compiler_in_children,
    outside_compilation,
    save_compilation_metrics,
)


class GraphTrial:
    """Trial of one rung on a graph: the rung compiles it, runs it, and is compared with eager.

    This happens in a forked child if a fork is safe, else in this process.
    """

    def __init__(
        self,
        eager: torch.fx.GraphModule,
        same_random: bool,
        strides: bool,
        seconds: float | None,
        *,
        with_eager_random: bool = False,
    ) -> None:
        """With `with_eager_random`, the rung can be made to draw the same random numbers as eager.

        `same_random` is whether it draws them anyway.
        """
        self.eager = eager
        self._strides, self._with_eager_random = strides, with_eager_random
        self._same_random, self._seconds = same_random, seconds

    def compile_and_check(
        self,
        compiler: GraphFn,
        module: torch.fx.GraphModule,
        inputs: list[object],
        examples: Sequence[object] | None,
    ) -> tuple[GraphVerdict, GraphFn | None]:
        """Return the verdict, and the compiled graph, or None if the verdict is a failure.

        `compiler(module, inputs)` compiles the graph. The result runs on the inputs `examples`; if
        they are None, the graph is only compiled.
        """

        def job() -> tuple[GraphVerdict, GraphFn | None]:
            """Compile the graph and check it on `examples`."""
            forget_metrics = save_compilation_metrics()
            try:
                compiled = compiler(module, inputs)
            except dynamo_control_exceptions():
                raise
            except Exception as error:
                return GraphVerdict("raises", describe_raised(error)), None
            if examples is None:
                return GraphVerdict("unknown"), compiled
            with outside_compilation():
                verdict = self._compare_with_eager(compiled, examples)
            if verdict.kind == "unknown" and verdict.draws != "nothing" and self._with_eager_random:
                forget_metrics()
                verdict = self._check_values(compiler, inputs, examples) or verdict
            return verdict, compiled

        if not _can_fork():
            take_back = save_compilation_metrics()
            verdict, compiled = job()
            if verdict.fails:
                take_back()
            return verdict, None if verdict.fails else compiled
        import_inductor()
        verdict = _run_forked(lambda: job()[0], self._seconds)
        if verdict.fails:
            return verdict, None
        try:
            return verdict, compiler(module, inputs)
        except dynamo_control_exceptions():
            raise
        except Exception as error:
            return GraphVerdict("raises", describe_raised(error)), None

    def _check_values(
        self, compiler: GraphFn, inputs: list[object], examples: Sequence[object]
    ) -> GraphVerdict | None:
        """Compile the graph with eager's random numbers; return the verdict on its values.

        None if that cannot be compiled, or does not draw eager's numbers all the same.
        """
        with draw_eager_random_numbers():
            try:
                compiled = compiler(copy_graph_module(self.eager), inputs)
            except dynamo_control_exceptions():
                raise
            except Exception:
                return None
            with outside_compilation():
                verdict = self._compare_with_eager(compiled, examples, same_random=True)
        trusted = verdict.draws == "eager's" and verdict.kind in ("same", "differs")
        return verdict if trusted else None

    def check(self, compiled: GraphFn, inputs: Sequence[object]) -> GraphVerdict:
        """Compare a graph that is already compiled with eager."""
        if not _can_fork():
            return self._compare_with_eager(compiled, inputs)
        return _run_forked(lambda: self._compare_with_eager(compiled, inputs), self._seconds)

    def _compare_with_eager(
        self, compiled: GraphFn, inputs: Sequence[object], *, same_random: bool = False
    ) -> GraphVerdict:
        """Return the verdict of `check_graph` for a compiled graph."""
        return check_graph(
            self.eager,
            compiled,
            inputs,
            same_random=self._same_random or same_random,
            strides=self._strides,
        )


def _can_fork() -> bool:
    return choose_process(())[0] == "fork" and pause_openmp()


def _run_forked(job: Callable[[], GraphVerdict], seconds: float | None) -> GraphVerdict:
    """Run `job` in a forked child that shares this process's compile cache."""
    threads = torch.get_num_threads()

    def child(emit: object) -> GraphVerdict:
        """Run the job; a control exception of Dynamo gives the verdict "unknown"."""
        torch.set_num_threads(threads)  # generated code depends on it, and OpenMP is paused
        try:
            return job()
        except dynamo_control_exceptions():
            return GraphVerdict("unknown")

    try:
        with keep_compiler_in_children():
            outcome = run_isolated(
                child, seconds=seconds, where="fork", cache=inductor_cache_dir(load=True)
            )
    except OSError as error:
        return GraphVerdict("unknown", f"no child could be forked: {error}")
    return _verdict_of(outcome, seconds)


def _verdict_of(outcome: JobOutcome[GraphVerdict], seconds: float | None) -> GraphVerdict:
    """Return the verdict that a child sent, or a verdict on how the child ended.

    A crash, a hang and an exception count as failures of the graph: "crashes", "hangs", "raises".
    For a child killed by SIGKILL the verdict is "unknown", because memory may have been short.
    """
    if outcome.value is not None:
        return outcome.value
    if outcome.status == "signal":
        if outcome.signal == "SIGKILL":
            return GraphVerdict("unknown", "its check was killed, as when memory is short")
        return GraphVerdict("crashes", f"crashes with {outcome.signal}")
    if outcome.status == "raised" and outcome.error is not None:
        return GraphVerdict("raises", describe_error(outcome.error.type, outcome.error.message))
    return GraphVerdict("hangs", f"was not done after {seconds} seconds")


def example_inputs(inputs: Sequence[object]) -> list[object] | None:
    """Return the inputs with each symbolic number replaced by its hint: `s0` by 8, for example.

    Returns None if a symbolic number has no hint, or if an input is a fake tensor.
    """
    symbols = (torch.SymInt, torch.SymFloat, torch.SymBool)
    numbers = [hint_of_symbol(thing) if isinstance(thing, symbols) else thing for thing in inputs]
    unknown = (
        number is None or is_fake_tensor(number)
        for number, thing in zip(numbers, inputs, strict=True)
        if thing is not None
    )
    return None if any(unknown) else numbers
