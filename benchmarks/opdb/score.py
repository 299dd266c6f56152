"""Score the backend `loops` on the samples of PyTorch's operator database.

    python -m benchmarks.opdb.score                    # all 300; prints a table in Markdown
    python -m benchmarks.opdb.score trapz/float32/1    # some of them

Each sample is a function of one call, compiled with `torch.compile(function, backend="loops")` in a
forked process of its own.

*Correct*: the outputs are those of eager, and so are the gradients of the inputs for random
gradients of the outputs, where the database says that the operator has them in that dtype. They are
compared by `torch.testing.assert_close` with its defaults for each dtype, which Inductor's tests
(`test_torchinductor_opinfo.py`) have too; those compare no gradients on the CPU. Where the dtype is
bfloat16, results may be those of eager in float32 instead, rounded, with which Inductor's tests
compare. A result that is not defined, that of `empty`, is compared by shape and dtype. A refusal is
not correct.

*Generated*: the sample is correct, Dynamo captured it in one graph, and of the ATen operators in
the graphs of forward and backward each one outside the closed list of extern operators
(`prims/extern.py`) runs in a generated kernel, or is a view and only index arithmetic. The backend
has no other way to run one: it refuses the graph. Samples whose graphs have extern operators and
views alone are not counted: there is nothing to generate.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from torch.utils._pytree import tree_leaves, tree_map

import fullgraph.compiler.lowering.backend  # noqa: F401  # registers the backend
from benchmarks.opdb.samples import Sample, make_sample, sample_names
from fullgraph.compiler.lowering.ir import Loop
from fullgraph.compiler.lowering.runtime import Program

SECONDS = 180
Status = Literal["generated", "extern", "graph break", "refused", "wrong", "error", "crash"]


@dataclass(frozen=True)
class Score:
    """What one sample gave."""

    name: str
    status: Status
    reason: str = ""
    kernels: int = 0
    generated: int = 0
    """Nodes of the graphs that run in generated kernels."""
    extern: int = 0
    """Nodes that are extern operators."""
    seconds: float = 0.0

    @property
    def is_correct(self) -> bool:
        """Whether outputs and gradients are those of eager."""
        return self.status in ("generated", "extern", "graph break")


def score(name: str) -> Score:
    """Compile and compare one sample in this process."""
    start = time.perf_counter()
    expected = run(make_sample(name))
    programs: list[Program] = []
    is_whole = True
    try:
        try:
            actual = _compiled(make_sample(name), programs, is_whole)
        except (torch._dynamo.exc.Unsupported, torch._dynamo.exc.InternalTorchDynamoError) as error:
            reason, is_whole = _first_line(error), False
            torch.compiler.reset()
            actual = _compiled(make_sample(name), programs, is_whole)
    except Exception as error:
        refusal = _refusal(error)
        text = refusal or f"{type(error).__name__}: {_first_line(error)}"
        return Score(name, "refused" if refusal else "error", text)
    seconds = time.perf_counter() - start
    difference = compare(actual, expected)
    if difference and "/bfloat16/" in name:
        difference = compare(actual, _rounded(run(_in_float32(make_sample(name)))))
    if difference:
        return Score(name, "wrong", difference)
    generated = sum(len(_computed(one)) for one in programs)
    extern = sum(len(one.externs) for one in programs)
    kernels = sum(one.kernels for one in programs)
    if not is_whole:
        return Score(name, "graph break", reason, kernels, generated, extern, seconds)
    status: Status = "extern" if extern and not generated else "generated"
    return Score(name, status, "", kernels, generated, extern, seconds)


def run(sample: Sample, function: Any = None) -> list[object]:
    """Return the outputs of a sample, and the gradients of its inputs."""
    torch.manual_seed(42)
    outputs = tree_leaves((function or sample.function)(*sample.args, **sample.kwargs))
    if not sample.has_defined_result:
        outputs = [torch.zeros_like(one) for one in outputs]
    ends = [one for one in outputs if isinstance(one, torch.Tensor) and one.requires_grad]
    inputs = [one for one in tree_leaves((sample.args, sample.kwargs))
              if isinstance(one, torch.Tensor) and one.requires_grad]  # fmt: skip
    if not ends or not inputs:
        return outputs
    torch.manual_seed(43)
    weights = [torch.randn(one.shape).bfloat16().to(one.dtype) for one in ends]
    return [*outputs, *torch.autograd.grad(ends, inputs, weights, allow_unused=True)]


def _compiled(sample: Sample, programs: list[Program], is_whole: bool) -> list[object]:
    function = sample.function

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    programs.clear()
    options: Any = {"on_program": programs.append}
    return run(sample, torch.compile(call, backend="loops", options=options, fullgraph=is_whole))


def _in_float32(sample: Sample) -> Sample:
    """Return a sample with tensors in float32 for those in bfloat16."""

    def convert(one: object) -> object:
        if not isinstance(one, torch.Tensor) or one.dtype != torch.bfloat16:
            return one
        return one.detach().float().requires_grad_(one.requires_grad)

    args, kwargs = tree_map(convert, (sample.args, sample.kwargs))
    return replace(sample, args=args, kwargs=kwargs)


def _rounded(values: list[object]) -> list[object]:
    """Return results with those in float32 rounded to bfloat16."""
    return [
        one.bfloat16() if isinstance(one, torch.Tensor) and one.dtype == torch.float32 else one
        for one in values
    ]


def compare(actual: list[object], expected: list[object]) -> str:
    """Return what differs between results; nothing if they agree."""
    if len(actual) != len(expected):
        return f"{len(actual)} results instead of {len(expected)}"
    for number, (one, other) in enumerate(zip(actual, expected, strict=True)):
        try:
            if isinstance(other, torch.Tensor):
                torch.testing.assert_close(one, other, equal_nan=True)
            elif one != other:
                return f"result {number} is {one}, not {other}"
        except AssertionError as error:
            return f"result {number}: {' '.join(str(error).split())}"
    return ""


def _computed(program: Program) -> set[str]:
    """Return the nodes that run in generated kernels, without copies for extern operators."""
    graph = program.plan.graph
    found = {name for step in graph.steps if isinstance(step, Loop) for name in step.origins}
    return {
        name for name in found
        if not (name.endswith("_copy") and name.removesuffix("_copy") in graph.buffers)
    }  # fmt: skip


def _refusal(error: BaseException | None) -> str:
    """Return the message of the backend's refusal that an error stands for, if it does."""
    text = str(error)
    if "backend `loops`: " not in text:
        return ""
    return text.split("backend `loops`: ")[1].split(" (node")[0].splitlines()[0]


def _first_line(error: BaseException) -> str:
    error = getattr(error, "inner_exception", error)
    return next((line for line in str(error).splitlines() if line.strip()), "")


def score_apart(name: str) -> Score:
    """Score a sample in a forked process."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def work() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sender.send(score(name))

    process = context.Process(target=work)
    process.start()
    sender.close()
    result = Score(name, "crash", f"no result within {SECONDS} s")
    if receiver.poll(SECONDS):
        with contextlib.suppress(EOFError):
            result = receiver.recv()
    process.join(1)
    if process.is_alive():
        process.kill()
        process.join()
    elif process.exitcode:
        result = Score(name, "crash", f"exit code {process.exitcode}")
    return result


def table(scores: list[Score]) -> Iterator[str]:
    """Yield the lines of the report."""
    correct = sum(one.is_correct for one in scores)
    counted = [one for one in scores if one.status != "extern"]
    generated = sum(one.status == "generated" for one in counted)
    nodes, externs = sum(one.generated for one in scores), sum(one.extern for one in scores)
    yield "| score | samples | of | share |"
    yield "| --- | --- | --- | --- |"
    yield f"| correct | {correct} | {len(scores)} | {correct / len(scores):.1%} |"
    yield f"| generated | {generated} | {len(counted)} | {generated / max(len(counted), 1):.1%} |"
    yield ""
    yield f"{len(scores) - len(counted)} samples are extern alone. In the graphs of correct samples"
    yield f"{nodes} nodes run in generated kernels, and {externs} are calls of extern operators."
    yield ""
    yield "| sample | result | reason |"
    yield "| --- | --- | --- |"
    for one in sorted(scores, key=lambda one: (one.status, one.reason, one.name)):
        if one.status not in ("generated", "extern"):
            yield f"| {one.name} | {one.status} | {one.reason[:160].replace('|', '¦')} |"


def main(names: list[str]) -> None:
    """Score samples and print the report; a line of JSON for each goes to stderr."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, environment("FULLGRAPH_CACHE_DIR", folder):
        score("positive/bfloat16/0")  # imports what compiling needs, once for all
        torch.compiler.reset()
        scores = []
        for name in names:
            scores.append(score_apart(name))
            print(json.dumps(asdict(scores[-1])), file=sys.stderr, flush=True)
    print("\n".join(table(scores)))


@contextlib.contextmanager
def environment(key: str, value: str) -> Iterator[None]:
    """Set an environment variable inside a `with` block."""
    import os

    os.environ[key] = value
    try:
        yield
    finally:
        del os.environ[key]


if __name__ == "__main__":
    main(sys.argv[1:] or sample_names())
