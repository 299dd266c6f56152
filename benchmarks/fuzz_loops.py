"""Random programs on the backend `loops`, judged against eager beside a run in float64.

    python -m benchmarks.fuzz_loops [--seed 0] [--count 600] [--jobs 2]
    python -m benchmarks.fuzz_loops --show 17            # one program as text, and its answer
    python -m benchmarks.fuzz_loops --shrink 17          # that program, shrunk by `minify`

benchmarks/fuzz/programs.py draws the programs. Each has one configuration: static or dynamic sizes;
inference, or training with a second step at another size of the batch. Answers are added to
benchmarks/results/fuzz-loops-<commit>.jsonl as they come: an interrupted run resumes there; a whole
one writes fuzz-loops-<commit>.md.

*Wrong* is an output, gradient or changed input that differs from eager's in shape, dtype, strides,
or value: its error against float64 is more than `NOISE` times eager's, or eager's change when the
inputs are rounded otherwise in `CHANGES` ways, and more than `ROUNDINGS` roundings. *Error* is an
exception that is no refusal. Both count only where `aot_eager`, the same graphs without the
backend, is right; a value only where torch's own decompositions give eager's value, and strides
only where they are not those of torch's fake tensors, on which AOTAutograd relies. *Refused* is an
`UnsupportedOperator`. The exit code is 1 if a program is wrong or an error, and `KNOWN` does not
name it.
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_leaves

from benchmarks.fuzz.programs import Program, draw
from benchmarks.nightly import git
from benchmarks.opdb.score import environment
from benchmarks.server import Server

RESULTS = Path(__file__).parent / "results"
LIMIT = 300.0
"""Seconds for one program."""
NOISE, ROUNDINGS, CHANGES, LEAST = 10.0, 8.0, 4, 0.1
KNOWN = {
    "0/8": "eager's stride of a dim of size 1 after an interpolation is another",
    "0/186": "rounding of positions in an interpolation, as in torch's decomposition",
    "0/238": "eager's strides of a tensor without elements are others",
}
"""Programs that are known to be off, and why: they do not change the exit code."""
Results = list[Any]
Verdict = Literal["ok", "wrong", "error", "refused", "not ours"]


def run(
    program: Program,
    function: Callable[..., Any],
    call: int,
    *,
    dtype: torch.dtype | None = None,
    change: int = 0,
    fake: FakeTensorMode | None = None,
) -> Results:
    """Return outputs, and gradients of the inputs or the inputs after the call.

    On demand the inputs have another dtype, are fake tensors, or each element is changed by one
    rounding at most: `change` is the number of such a change.
    """
    inputs = program.arguments(call, dtype)
    if change:
        generator = torch.Generator().manual_seed(change)
        inputs = [_rounded_otherwise(x, generator) for x in inputs]
    if fake is not None:
        inputs = [fake.from_tensor(x) for x in inputs]
    if program.trains:
        inputs = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
    torch.manual_seed(0)
    outputs = [one for one in tree_leaves(function(*inputs)) if isinstance(one, torch.Tensor)]
    results: Results = [one.detach() for one in outputs]
    if not program.trains:
        return results + inputs
    leaves = [x for x in inputs if x.requires_grad]
    ends = [one for one in outputs if one.requires_grad]
    ends = [torch.view_as_real(one) if one.is_complex() else one for one in ends]
    if not leaves or not ends:
        return results
    losses = [(one * _weights_like(one)).sum().double() for one in ends]
    return [*results, *torch.autograd.grad(losses, leaves, allow_unused=True)]


def _rounded_otherwise(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if not x.is_floating_point():
        return x
    steps = torch.randint(-1, 2, x.shape, generator=generator)
    changed = x + x * steps * torch.finfo(x.dtype).eps
    return x.copy_(changed) if _is_dense(x) else changed.to(x.dtype)


def _is_dense(x: torch.Tensor) -> bool:
    """Return whether no two elements share memory."""
    return all(size == 1 or stride > 0 for size, stride in zip(x.shape, x.stride(), strict=True))


def _weights_like(output: torch.Tensor) -> torch.Tensor:
    weights = torch.linspace(0.5, 1.5, output.numel(), dtype=torch.float64)
    return weights.reshape(output.shape).to(output)


def predicted_strides(program: Program, call: int) -> list[tuple[int, ...] | None]:
    """Return the strides of each result on torch's fake tensors; [] if they do not run there."""
    shapes = ShapeEnv() if program.is_dynamic else None
    fake = FakeTensorMode(shape_env=shapes, allow_non_fake_inputs=True)
    try:
        with fake:
            results = run(program, program.function(), call, fake=fake)
        return [None if x is None else tuple(int(one) for one in x.stride()) for x in results]
    except Exception:  # a size that depends on data
        return []


def judge(program: Program, backend: str) -> tuple[Verdict, dict[str, str]]:
    """Return the verdict on a program, and what is wrong by place: a result of a call."""
    function = program.function()
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend, dynamic=program.is_dynamic)
    found: dict[str, str] = {}
    for call in (0, 1):
        try:
            expected = run(program, function, call)
        except Exception as error:  # a gradient that eager does not have
            return "not ours", {"eager": f"{type(error).__name__}: {error}"[:300]}
        try:
            actual = run(program, compiled, call)
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            _, refused, rest = text.partition("UnsupportedOperator: ")
            if refused:
                return "refused", {"": rest.split(" (node")[0].split(" Set TORCH")[0][:300]}
            return "error", {f"call {call}": text[:300]}
        try:
            exact = run(program, function, call, dtype=torch.float64)
        except Exception:  # the program names a dtype
            exact = expected
        near = [run(program, function, call, change=number) for number in range(1, CHANGES + 1)]
        found.update(
            (f"call {call}, {place}", difference)
            for place, difference in _differences(actual, expected, exact, near)
        )
    return ("wrong" if found else "ok"), found


def _differences(
    actual: Results, expected: Results, exact: Results, near: Sequence[Results]
) -> Iterator[tuple[str, str]]:
    """Yield each place where results differ from eager's, and how."""
    if len(actual) != len(expected):
        yield "results", f"{len(actual)} instead of {len(expected)}"
        return
    for number, (got, want) in enumerate(zip(actual, expected, strict=True)):
        place = f"result {number}"
        if got is None or want is None:
            if got is not want:
                yield place, "None here or in eager"
            continue
        for aspect, one, other in (
            ("shape", got.shape, want.shape),
            ("dtype", got.dtype, want.dtype),
            ("strides", got.stride(), want.stride()),
        ):
            if one != other:
                yield f"{place}, {aspect}", f"{one}, in eager {other}"
        if got.shape != want.shape:
            continue
        reference = exact[number]
        if reference is None or reference.shape != want.shape:
            reference = want
        error = _error(got, reference)
        if error > _allowed(want, reference, [results[number] for results in near]):
            yield place, f"off by {error:.1e}, eager by {_error(want, reference):.1e}"


def _allowed(want: torch.Tensor, exact: torch.Tensor, near: Sequence[torch.Tensor]) -> float:
    """Return the largest error of a result, as a share of its greatest element."""
    own = max(_error(want, exact), *(_error(x, want) for x in near if x.shape == want.shape), 0.0)
    is_exact = not (want.is_floating_point() or want.is_complex())
    return max(NOISE * own, 0.0 if is_exact else ROUNDINGS * torch.finfo(want.dtype).eps)


def _error(one: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the largest difference, as a share of the greatest element of `exact`.

    Elements that are all small are what is left of larger ones: they count as `LEAST`.
    """
    if not exact.numel():
        return 0.0
    wide = torch.complex128 if exact.is_complex() or one.is_complex() else torch.float64
    one, exact = one.to(wide), exact.to(wide)
    is_same = (one == exact) | (one.isnan() & exact.isnan())
    difference = torch.where(is_same, 0, one - exact).abs().nan_to_num(math.inf)
    scale = max(exact.abs().nan_to_num(0, 0, 0).max().item(), LEAST)
    return difference.max().item() / scale


def answer(seed: int, number: int, emit: object = None) -> dict[str, Any]:
    """Return the verdict on one program of a seed."""
    import fullgraph.compiler.lowering.backend  # noqa: F401  # registers the backend
    from fullgraph.compiler.isolation import leave_fork_server

    leave_fork_server()
    warnings.simplefilter("ignore")
    program = draw(seed, number)
    verdict, places = judge(program, "loops")
    if verdict in ("wrong", "error"):
        ours = dict(places)
        for peer in ("aot_eager", "aot_eager_decomp_partition"):
            others = judge(program, peer)[1] if ours else {}
            if peer != "aot_eager":  # strides are not compared with those of decompositions
                others = {place: text for place, text in others.items() if "off by" in text}
            ours = {place: text for place, text in ours.items() if place not in others}
        for call in (0, 1):
            for number, strides in enumerate(predicted_strides(program, call)):
                place = f"call {call}, result {number}, strides"
                if ours.get(place, "").startswith(f"{strides}, "):
                    del ours[place]
        verdict, places = (verdict, ours) if ours else ("not ours", places)
    return {
        "verdict": verdict,
        "reason": "; ".join(
            f"{place}: {text}".removeprefix(": ") for place, text in places.items()
        ),
        "configuration": program.configuration,
        "operators": len(program.lines),
        "crash": None,
    }


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the report; a process that died is an error."""
    kinds: tuple[Verdict, ...] = ("ok", "not ours", "refused", "error", "wrong")
    yield f"| configuration | programs | {' | '.join(kinds)} |"
    yield "| --- " * (len(kinds) + 2) + "|"
    configurations = {row.get("configuration") or "no answer" for row in rows}
    for name in (*sorted(configurations), "all"):
        own = [row for row in rows if name in ("all", row.get("configuration") or "no answer")]
        counts = Counter(row.get("verdict") or "error" for row in own)
        yield f"| {name} | {len(own)} | {' | '.join(str(counts[kind]) for kind in kinds)} |"
    yield ""
    yield "| program | verdict | reason |"
    yield "| --- | --- | --- |"
    for row in sorted(rows, key=lambda row: (str(row.get("verdict")), str(row.get("reason")))):
        if row.get("verdict") != "ok":
            reason = (row.get("reason") or row["crash"])[:220].replace("|", "¦")
            yield f"| {row['key']} | {row.get('verdict') or 'error'} | {reason} |"


def shrink(program: Program) -> None:
    """Write the smallest program that fails like one, by `minify`."""
    from fullgraph import minify

    with tempfile.TemporaryDirectory() as folder:
        imports = "import math\nimport torch\nimport torch.nn.functional as F\n\n\n"
        Path(folder, "fuzzed.py").write_text(imports + program.text)
        sys.path.insert(0, folder)
        function = importlib.import_module("fuzzed").program
        arguments = tuple(program.arguments(0))
        if program.trains:
            arguments = tuple(x.requires_grad_(x.is_floating_point()) for x in arguments)
        dynamic, loss = program.is_dynamic, program.trains or None
        print(minify(function, arguments, backend="loops", dynamic=dynamic, loss=loss))


def main() -> int:
    """Judge the programs that the journal lacks; write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", type=int)
    parser.add_argument("--shrink", type=int)
    arguments = parser.parse_args()
    seed = arguments.seed
    if arguments.show is not None:
        program = draw(seed, arguments.show)
        print(*program.inputs, program.text, answer(seed, arguments.show), sep="\n")
        return 0
    if arguments.shrink is not None:
        shrink(draw(seed, arguments.shrink))
        return 0
    commit = git("rev-parse", "--short=8", "HEAD").strip()
    path = RESULTS / f"fuzz-loops-{commit}.jsonl"
    with tempfile.TemporaryDirectory() as folder, environment("FULLGRAPH_CACHE_DIR", folder):
        server = Server(LIMIT, "benchmarks.fuzz_loops")
        questions = {
            f"{seed}/{number}": partial(server.run, partial(answer, seed, number))
            for number in range(arguments.count)
        }
        rows = list(server.answer_all(path, questions, _say, arguments.jobs).values())
    lines = [*table(rows)]
    path.with_suffix(".md").write_text("\n".join([f"Seed {seed}.", "", *lines, ""]))
    print("\n".join(lines))
    harmless = ("ok", "refused", "not ours")
    return int(any(row.get("verdict") not in harmless and row["key"] not in KNOWN for row in rows))


def _say(row: dict[str, Any]) -> str:
    return f"{row['key']}: {row.get('verdict') or row['crash']} {row.get('reason') or ''}"[:200]


if __name__ == "__main__":
    sys.exit(main())
