"""Write a failure as a script: one Python file whose exit code shows the failure."""

from __future__ import annotations

import ast
import platform
import re
from collections.abc import Iterator, Mapping, Sequence

import torch

from fullgraph.compiler.numerics import OWN_MEMORY, Tolerance
from fullgraph.minifier.emit import syntax
from fullgraph.minifier.emit.program_text import ProgramText
from fullgraph.minifier.oracle.failure import SLOW_FACTOR, SLOW_OVERHEAD, STORM, Kind
from fullgraph.minifier.repro import config_statements as given
from fullgraph.minifier.repro.script_check import ScriptCheck, describe_check

_ASKED = 14
"""Maximum number of characters of an expression that an assertion contains twice."""
_REPEATED = 3
"""Maximum number of lines that make the inputs and are repeated; more become a function."""
_LIMITS = {Kind.HANG: 60.0, Kind.MEMORY: float(32 << 30)}
"""Default limits: seconds before a hang, bytes of address space."""
_START = 20.0
"""Minimum number of seconds before a hang: the compiler has to be loaded first."""
_TIMES = 10
"""Number of calls that are timed together, for a slow program."""


def script(
    program: ProgramText,
    check: ScriptCheck,
    *,
    backend: str,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
    settings: Mapping[str, object] | None = None,
    register: object = None,
    environment: str | None = None,
) -> str:
    """Return a script that exits with an error exactly if `backend` fails as `check` says.

    The backend is named only once, so that it can be replaced; `mode` and `options` of Inductor
    become settings. `settings` have full names, "torch._inductor.config.freezing". A setting that
    is a function is included as source, or becomes a comment; so is `register`, a function that the
    script registers as `backend`. `environment` is the text of the first line; None: the versions
    and the machine. Raises Unwritable for a `register` without source.
    """
    sources = given.sources_beside(program)
    lines = given.write_settings(mode, options, settings, program, backend, sources)
    if register is not None:
        lines.append(given.register_backend(backend, register, sources))
    compiled = f'torch.compile({program.callee}, backend="{backend}"'
    compiled += "" if dynamic is None else f", dynamic={dynamic}"
    compiled += ", fullgraph=True)" if fullgraph or check.kind is Kind.BREAK else ")"
    body = _Body(program, check, compiled)
    header = [f"# {environment if environment is not None else surroundings()}"]
    every = {*program.imports, *body.imports, *sources.imports.values(), "import torch"}
    imports = sorted(every, key=lambda line: (line.startswith("from"), line))
    parts = [
        "\n".join(header + imports),
        *sources.texts,
        "\n".join([*lines, *program.prelude.splitlines()]),
        "" if program.anew else program.function,
        "\n".join(body.setup),
        "\n".join(body.lines),
    ]
    return _join_parts(parts)


def surroundings() -> str:
    """Return the versions and the machine: "torch 2.9.0, Python 3.12.3, Linux x86_64, AVX2"."""
    parts = [
        f"torch {torch.__version__}",
        f"Python {platform.python_version()}",
        f"{platform.system()} {platform.machine()}",
        torch.backends.cpu.get_cpu_capability(),
    ]
    if torch.version.cuda or torch.version.hip:
        gpus = torch.cuda.device_count()
        parts.append(torch.cuda.get_device_name(0) if gpus else "no GPU")
    return ", ".join(parts)


def _join_parts(parts: Sequence[str]) -> str:
    """Return the parts of a file joined by blank lines, two around functions."""
    text = ""
    for part in filter(None, (part.strip("\n") for part in parts)):
        if text:
            function = part.startswith(("def ", "class ", "@")) or text.splitlines()[-1][:1] == " "
            text += "\n\n\n" if function else "\n\n"
        text += part
    return text + "\n"


class _Body:
    """Writer of the statements after the program's definitions: inputs, calls, an assertion."""

    def __init__(self, program: ProgramText, check: ScriptCheck, compiled: str) -> None:
        self._program, self._check, self._compiled = program, check, compiled
        self._eager = program.callee
        self.imports: list[str] = []
        made = [] if program.target.isidentifier() else [f"model = {program.target}"]
        is_seeded = not program.random_inputs or "manual_seed" in program.inputs
        seed = [] if is_seeded else ["torch.manual_seed(0)"]  # an issue quotes what it gives
        self._inputs = [*seed, *made, *program.inputs.splitlines()]
        compares = check.kind in (Kind.RESULT, Kind.METADATA, Kind.GRADIENT, Kind.MUTATION)
        self._twice = compares and (program.mutates or check.kind is Kind.MUTATION)
        names = ", ".join(self._names_used)
        self.setup = self._inputs
        if program.anew:
            self.setup, self._inputs = self._make_program()
        elif self._twice and len(self._inputs) > _REPEATED:
            self.setup = ["def make_inputs():", *_indent_lines([*self._inputs, f"return {names}"])]
            self._inputs = [f"{names} = make_inputs()"]
        elif self._twice:
            self.setup = []
        lines = list(self._check_lines())
        if program.under:
            lines = [f"with {', '.join(program.under)}:", *_indent_lines(lines)]
        self.lines = [line if line.startswith("#") else syntax.fold_line(line) for line in lines]

    def _make_program(self) -> tuple[list[str], list[str]]:
        """Return a function that makes the program and its inputs, and the call of it, as lines."""
        names = ", ".join(dict.fromkeys([self._eager, *self._names_used]))
        lines = [*self._program.function.splitlines(), *self._inputs, f"return {names}"]
        own = re.compile(r"^(\s+)global (?=\w)")  # a name of the outer function now
        lines = [own.sub(r"\1nonlocal ", line) for line in lines]
        return ["def make_program():", *_indent_lines(lines)], [f"{names} = make_program()"]

    @property
    def _names_used(self) -> list[str]:
        """Return the names that the statements of the inputs bind and that calls read."""
        used = syntax.names(f"{self._program.function}\n{self._call_of(self._eager)}", ast.Load)
        given = syntax.names("\n".join(self._inputs), ast.Store)
        return [name for name in dict.fromkeys(given) if name in used]

    def _call_of(self, callee: str) -> str:
        return f"{callee}({', '.join(self._program.arguments)})"

    def _check_lines(self) -> Iterator[str]:
        """Yield the lines that show the failure, according to its kind."""
        match self._check.kind:
            case Kind.RESULT | Kind.METADATA:
                yield from self._compare_outputs()
            case Kind.GRADIENT:
                yield from self._compare_gradients()
            case Kind.MUTATION:
                yield from self._compare_mutations()
            case Kind.RECOMPILE:
                yield from self._forbid_recompile()
            case Kind.SLOW:
                yield from self._compare_times()
            case _:
                yield from self._run_lines()

    # --- one side ---

    def _lines_before_call(self) -> list[str]:
        """Return the lines before a call: its inputs, if each call needs its own, and the seeds."""
        lines = list(self._inputs) if self._twice else []
        return [*lines, "torch.manual_seed(0)"] if self._program.random else lines

    def _with_backward(self, call: str) -> str:
        """Return the expression of a call and its backward; the call alone if there is no loss."""
        if not self._program.loss:
            return call
        return self._program.loss.replace("{}", call) + ".backward()"

    def _after_other_calls(self, callee: str, last: str) -> list[str]:
        """Return the line `last`, the last call, after the calls that precede it."""
        lines = []
        for arguments in self._program.earlier:
            step = f"{callee}({', '.join(arguments)})"
            lines.append(self._with_backward(step) if self._check.backward else step)
        if self._check.calls > 1:
            step = self._call_of(callee)
            step = self._with_backward(step) if self._check.backward else step
            lines += [f"for _ in range({self._check.calls - 1}):", *_indent_lines([step])]
        return [*lines, last]

    def _call_side(self, callee: str, last: str) -> list[str]:
        """Return the lines that call `callee`, the eager or compiled program, ending with `last`.

        If it is compiled and called several times, it is assigned to a variable first.
        """
        if callee == self._compiled and (self._check.calls > 1 or self._program.earlier):
            lines = self._after_other_calls("compiled", last.replace(callee, "compiled"))
            return [*self._lines_before_call(), f"compiled = {callee}", *lines]
        return [*self._lines_before_call(), *self._after_other_calls(callee, last)]

    # --- kinds ---

    def _run_lines(self) -> Iterator[str]:
        """Yield the lines for a failure that needs no comparison: an exception, a hang, a crash."""
        kind = self._check.kind
        limit = self._check.limit or _LIMITS.get(kind, 0.0)
        if kind is Kind.HANG:
            self.imports.append("import faulthandler")
            seconds = max(limit, _START)
            yield f"faulthandler.dump_traceback_later({seconds:.0f}, exit=True)  # it hangs"
        elif kind is Kind.MEMORY:
            self.imports.append("import resource")
            yield f"resource.setrlimit(resource.RLIMIT_AS, ({limit:.0f}, {limit:.0f}))"
        call = self._call_of(self._compiled)
        yield from describe_check(self._check)
        yield from self._call_side(
            self._compiled, self._with_backward(call) if self._check.backward else call
        )

    def _compare_outputs(self) -> Iterator[str]:
        """Yield the lines that compare an output with eager's."""
        check = self._check
        path = check.where.removeprefix("output")
        if self._program.outputs == 1:
            path = path.removeprefix("[0]")
        if check.aspect == "alias":
            yield from self._compare_aliases(path)
            return
        path = path.replace("'", '"')
        yield from self._call_side(self._eager, f"expected = {self._call_of(self._eager)}{path}")
        yield from self._call_side(self._compiled, f"got = {self._call_of(self._compiled)}{path}")
        yield from self._assert_close("got", "expected")

    def _compare_aliases(self, path: str) -> Iterator[str]:
        """Yield the lines that assert whose memory an output shares."""
        check = self._check
        other, same = (check.expected, "==") if check.got == OWN_MEMORY else (check.got, "!=")
        yield from self._call_side(self._compiled, f"got = {self._call_of(self._compiled)}")
        output = re.fullmatch(r"output(\[.*)?", other)
        name = f"got{output[1] or ''}" if output else self._program.place(other)
        pointer = "untyped_storage().data_ptr()"
        told = f"{check.where}: expected {check.expected}, got {check.got}"
        yield f'assert got{path}.{pointer} {same} {name}.{pointer}, "{told}"'

    def _compare_gradients(self) -> Iterator[str]:
        """Yield the lines that compare a gradient with eager's."""
        place = self._program.place(self._check.where)
        eager, compiled = self._call_of(self._eager), self._call_of(self._compiled)
        yield from self._call_side(self._eager, self._with_backward(eager))
        if self._twice:
            yield f"expected = {place}.grad"
        else:
            yield f"expected, {place}.grad = {place}.grad, None"
        yield from self._call_side(self._compiled, self._with_backward(compiled))
        yield from self._assertion_of(f"{place}.grad")

    def _compare_mutations(self) -> Iterator[str]:
        """Yield the lines that compare an input or buffer with eager's, after the calls."""
        place = self._program.place(self._check.where)
        if self._check.aspect == "keys":
            place = self._program.container_expression(self._check.where)
        for side, name in ((self._eager, "expected"), (self._compiled, "")):
            call = self._call_of(side)
            yield from self._call_side(
                side, self._with_backward(call) if self._check.backward else call
            )
            if name:
                yield f"{name} = {place}"
        yield from self._assertion_of(place)

    def _assertion_of(self, place: str) -> Iterator[str]:
        """Yield the lines that assert that the expression `place` equals `expected`."""
        if '"' in place or "(" in place:  # it could not stand in an f-string, or is long
            yield f"got = {place}"
            place = "got"
        yield from self._assert_close(place, "expected")

    def _forbid_recompile(self) -> Iterator[str]:
        """Yield the lines that raise an exception on a recompile."""
        earlier = [f"compiled({', '.join(arguments)})" for arguments in self._program.earlier]
        calls = [*earlier, self._call_of("compiled")]
        if earlier:
            yield f"torch._dynamo.config.recompile_limit = {1 << 10}"
        yield f"compiled = {self._compiled}"
        yield f"for _ in range({STORM}):"
        yield from _indent_lines(calls)
        yield 'with torch.compiler.set_stance("fail_on_recompile"):'
        yield from _indent_lines(calls)

    def _compare_times(self) -> Iterator[str]:
        """Yield the lines that compare the times of eager and compiled calls."""
        self.imports.append("import timeit")
        yield f"compiled = {self._compiled}"
        for side in (self._eager, "compiled"):
            yield f"{self._call_of(side)}, {self._call_of(side)}"
        for variable, side in (("expected", self._eager), ("got", "compiled")):
            timed = f"timeit.repeat(lambda: {self._call_of(side)}, repeat=5, number={_TIMES})"
            yield f"{variable} = min({timed})"
        yield from describe_check(self._check)
        most = f"{SLOW_FACTOR:g} * expected + {SLOW_OVERHEAD * _TIMES:g}"
        yield f'assert got < {most}, f"eager {{expected}} s, compiled {{got}} s"'

    def _assert_close(self, got: str, expected: str) -> Iterator[str]:
        """Yield the assertion that `got` equals `expected`, within the check's tolerance."""
        check = self._check
        text = check.expected.startswith(("'", '"', "b'"))
        if check.aspect in ("nan", "infinite", "value") and not text:
            tol = self._program.tolerance
            if check.tol is not None:
                tol = Tolerance(check.tol, check.tol)
            yield from describe_check(check)
            yield (
                f"torch.testing.assert_close({got}, {expected}, "
                f"rtol={tol.rtol:g}, atol={tol.atol:g}, equal_nan=True, "
                f'msg=f"expected {{{expected}}}, got {{{got}}}")'
            )
            return
        ask = _ASPECTS.get(check.aspect, "{}." + check.aspect)
        if check.aspect == "keys" and check.kind is Kind.MUTATION:
            ask = "{}"  # the place is what was asked for
        if check.aspect == "stride" and re.search(r"\b0\b", check.expected + check.got):
            ask = "{}.squeeze().stride()"  # an axis of one element has any stride
        one, other = ask.replace("{}", got), ask.replace("{}", expected)
        if len(one) > _ASKED:
            yield f"got, expected = {one}, {other}"
            one, other = "got", "expected"
        exact = "!r" if text else ""
        yield f'assert {one} == {other}, f"expected {{{other}{exact}}}, got {{{one}{exact}}}"'


_ASPECTS = {
    "stride": "{}.stride()",
    "type": "type({})",
    "value": "{}",
    "keys": "torch.utils._pytree.tree_structure({})",
}
"""Expression for each aspect of a value `{}`; other aspects are attributes."""


def _indent_lines(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" if line else "" for line in lines]
