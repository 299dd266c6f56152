"""Text of an issue: description, script, outcome by backend, error, versions."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Protocol

import torch.utils.collect_env

from fullgraph.minifier.oracle.failure import Failure, Kind
from fullgraph.minifier.repro.backend_outcomes import PASSES, words_for
from fullgraph.minifier.repro.constructs import passes_views, python_constructs
from fullgraph.minifier.repro.fresh_interpreter import ScriptRun
from fullgraph.minifier.repro.operator_names import is_transform, operators
from fullgraph.minifier.repro.script_check import ScriptCheck, first_clauses
from fullgraph.minifier.repro.script_text import backend_of, compared_expressions
from fullgraph.minifier.rungs.bisection import Bisection
from fullgraph.minifier.rungs.culprit import Culprit

_FRAMES = 6
"""Number of frames shown at the end of a traceback."""
_ENDS = 26
"""Number of lines shown of the beginning, and of the end, of a long text."""
_ERRORS = 3
"""Number of errors shown of a C++ compiler."""
_CONTEXT = 5
"""Number of lines shown after each of them."""
_LINE = 200
"""Maximum number of characters of a line."""
_SHORT = 40
"""Maximum number of characters of a value in a title."""
_ERROR = re.compile(r"""[A-Za-z_][\w.]*: |.*: got \w+\(['"]|.* failed to run FX node """)
"""Beginnings of the lines of a traceback that name an exception or the one that it wraps."""
_ELEMENTS = ("nan", "infinite", "value")
"""Aspects that concern one element of a result."""
_STAGES = {
    "eager": "Dynamo",
    "aot_eager": "AOTAutograd",
    "aot_eager_decomp_partition": "AOTAutograd's decompositions or its partitioner",
    "inductor": "Inductor",
}
"""The stage that each backend runs and the backends below it do not."""


class CheckedScript(Protocol):
    """The attributes of `Minified` that an issue's text needs."""

    @property
    def bisection(self) -> Bisection: ...
    @property
    def check(self) -> ScriptCheck | None: ...
    @property
    def text(self) -> str: ...
    @property
    def ran(self) -> ScriptRun | None: ...
    @property
    def outcomes(self) -> Mapping[str, str]: ...
    @property
    def ops_aten(self) -> int: ...


def issue(found: CheckedScript) -> str:
    """Return a GitHub issue on a failing script, as Markdown; the first line is the title.

    "" if there is no failure.
    """
    failure, check = found.bisection.failure, found.check
    if failure is None or check is None:
        return ""
    backend = backend_of(found.text) or failure.rung
    stage = _name_stage(check, backend, found.outcomes, found.text)
    describe = [summarize(check, backend, found.text), stage]
    culprit = found.bisection.culprit
    if culprit is not None:
        describe.append(describe_culprit(culprit, found.ops_aten))
    parts = [
        title_of(check, backend, subjects(found.text, backend, found.ran), found.text),
        f"### 🐛 Describe the bug\n\n{' '.join(filter(None, describe))}",
        f"```python\n{found.text.rstrip()}\n```",
        _backend_table(found.outcomes, found.text),
        f"### Error logs\n\n```\n{_error_of(found.ran, failure)}\n```",
        f"### Versions\n\n```\n{versions()}\n```",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def subjects(text: str, backend: str, ran: ScriptRun | None = None) -> tuple[str, ...]:
    """Return what the title of an issue names: operators such as "torch.cat".

    If Dynamo fails, Python constructs, such as "str() of a KeyError", are preferred. If the output
    of `ran` underlines an expression, only names in it, and transforms, are returned.
    """
    names = (python_constructs(text) if backend == "eager" else ()) or operators(text)
    code = _user_code(ran.output) if ran is not None else ""
    names = tuple(n for n in names if is_transform(n) or n.rpartition(".")[2] in code) or names
    if names and passes_views(text):
        names = (f"a function of inputs that share memory ({', '.join(names)})",)
    where = " with a graph break" if "torch._dynamo.graph_break()" in text else ""
    return (*names[:-1], f"{names[-1]}{where}") if names else ()


def _user_code(output: str) -> str:
    """Return the expression of the script that torch's error underlines; "" if there is none."""
    _, told, frames = output.rpartition("from user code:")
    pattern = r'^ +File "(?!.*/torch/).*", line \d+, in .*\n(.*)\n( *)(\^+)'
    found = re.findall(pattern, frames, re.MULTILINE) if told else []
    return found[-1][0][len(found[-1][1]) :][: len(found[-1][2])] if found else ""


def title_of(check: ScriptCheck, backend: str, names: tuple[str, ...], text: str = "") -> str:
    """Return the title of an issue: what fails, and with which operators or constructs.

    `names` are the operators or constructs, and `text` is the script.
    """
    *most, last = [*names[:3], *(["others"] if len(names) > 3 else [])] or [""]
    what = " and ".join(filter(None, (", ".join(most), last)))
    of = f" of {what}" if what else ""
    values = f": {check.got} instead of {check.expected}"
    values = values if max(len(check.got), len(check.expected)) <= _SHORT else ""
    match check.kind:
        case Kind.RESULT | Kind.METADATA:
            result = what if what.startswith("the ") else f"{_result_of(text)}{of}"
            told = f"wrong {_noun_of(check)} of {result}{values}"
            if check.aspect in _ELEMENTS:
                told = f"wrong result{of}{values}"
        case Kind.GRADIENT:
            told = f"wrong gradient{of}{values}"
        case Kind.MUTATION:
            place = _place_of(text)
            told = f"wrong `{place}` after {what or 'the call'}{values}"
            if place.isidentifier() or not place:
                place = "an input" if check.where.startswith("input[") else check.where
                told = f"wrong value left in {place} by {what or 'the program'}{values}"
        case Kind.CRASH:
            told = f"{' '.join(check.signature) or 'crash'}{of and f' in {what}'}"
        case Kind.HANG:
            told = f"does not end{of and f' compiling {what}'}"
        case Kind.MEMORY:
            told = f"runs out of memory{of and f' in {what}'}"
        case Kind.BREAK:
            told = f"graph break: {first_clauses(check.got)}"
        case Kind.RECOMPILE:
            told = "compiles again at every call"
        case Kind.SLOW:
            told = f"slower than eager{of}: {check.got}"
        case _:
            told = f"{first_clauses(check.got)}{of and f' ({what})'}"
    return f"{_call_of(backend, text)}: {told}"


def _call_of(backend: str, text: str) -> str:
    """Return `torch.compile(backend="inductor", dynamic=True)`, with the options of the script.

    `text` is the script.
    """
    return f"torch.compile({', '.join([words_for(backend), *_other_options(text)])})"


def _other_options(text: str) -> list[str]:
    """Return the options of `torch.compile` in a script, except the backend: ["dynamic=True"]."""
    return [
        f"{keyword.arg}={keyword.value.value!r}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.compile"
        for keyword in node.keywords
        if keyword.arg != "backend" and isinstance(keyword.value, ast.Constant)
    ]


def summarize(check: ScriptCheck, backend: str, text: str) -> str:
    """Return a sentence that compares what the compiled script does with what eager does."""
    compiled = f"`{_call_of(backend, text)}`"
    pair = f"{_code(check.got)} under {compiled} and {_code(check.expected)} in eager"
    at = f" at `{check.element}`" if check.element else ""
    match check.kind:
        case Kind.RESULT | Kind.METADATA:
            if check.aspect in _ELEMENTS:
                element = _compared_element(text) + check.element
                which = f"Element `{element}` of the result" if element else "The result"
                return f"{which} is {pair}."
            verb = "are" if check.aspect == "stride" else "is"
            return f"The {_noun_of(check)} of {_result_of(text)} {verb} {pair}."
        case Kind.GRADIENT:
            return f"The gradient of `{_place_of(text) or check.where}`{at} is {pair}."
        case Kind.MUTATION:
            return f"After the call, `{_place_of(text) or check.where}`{at} is {pair}."
        case Kind.CRASH:
            return f"The script runs in eager. The process dies under {compiled}."
        case Kind.BREAK:
            return "The program has a graph break, so that it raises under `fullgraph=True`."
        case Kind.RECOMPILE:
            return f"The program is compiled again at every call under {compiled}."
        case Kind.HANG:
            return f"The script runs in eager. It does not end under {compiled}."
        case Kind.MEMORY:
            return f"The script runs in eager. It runs out of memory under {compiled}."
        case Kind.SLOW:
            return f"Under {compiled} the program is {check.got.rstrip('.')}."
    return (
        f"The script runs in eager. It raises under {compiled}: {_code(first_clauses(check.got))}."
    )


def _compared_element(text: str) -> str:
    """Return the subscript of the results that a script compares: "[0]" for `f(x)[0]`.

    "" if it compares whole results.
    """
    made = re.search(r"^ *expected = .*\)((?:\[[^\[\]]+\])+)$", text, re.MULTILINE)
    return made[1] if made else ""


def _result_of(text: str) -> str:
    """Return what a script compares, in words: "the result" or "the squeezed result"."""
    return "the squeezed result" if "squeeze().stride()" in text else "the result"


def _noun_of(check: ScriptCheck) -> str:
    """Return the aspect that differs as a noun: "strides" for "stride"."""
    return {"stride": "strides", "keys": "structure"}.get(check.aspect, check.aspect)


def _code(text: str) -> str:
    """Return text in backticks, without a period at its end."""
    return f"`{text.rstrip('.')}`"


def _place_of(text: str) -> str:
    """Return the expression that a script compares, "x" for `x.grad`; "" if it is the result."""
    compared = compared_expressions(text) if text else None
    place = compared[0].removesuffix(".grad") if compared is not None else ""
    if place != "got":
        return place
    made = re.findall(r"^ *got = (.*)$", text, re.MULTILINE)
    return made[-1] if made and "compile" not in made[-1] else ""


def _name_stage(check: ScriptCheck, backend: str, outcomes: Mapping[str, str], text: str) -> str:
    """Return a sentence on the stage in which the failure begins; "" if that is unclear.

    If the script passes with "eager" and fails with "aot_eager", it begins in AOTAutograd.
    `outcomes` has what the script does with each backend, the lowest first.
    """
    below = takewhile(lambda name: name != words_for(backend), outcomes)
    good = [name for name in below if outcomes[name] == PASSES]
    stage = _STAGES.get(backend)
    if stage is None or not good:
        return ""
    if len(good) == 1:
        options = ", ".join([words_for(backend), *_other_options(text)])
        alone = f"It fails with `{options}` already, which runs {stage} alone."
        return alone if backend == "eager" else ""
    if check.aspect == "stride" and backend == "inductor":
        return f"The script passes with `{good[-1]}`, which runs the kernels that eager runs."
    return f"The script passes with `{good[-1]}`, so the failure begins in {stage}."


def describe_culprit(culprit: Culprit, ops_aten: int) -> str:
    """Return a sentence on the part without which the failure disappears; "" if in doubt.

    `ops_aten` is the number of operators in the ATen graph. An operator whose lowering is disabled
    runs as an ATen kernel, and is not fused with others. In a graph of several operators, the
    fusion may be the cause instead, so no lowering is named.
    """
    if culprit.number is None:
        return f"With `{culprit.what.removesuffix(' fixes it')}` it passes."
    if culprit.part == "lowerings" and ops_aten != 1:
        return ""
    if culprit.part == "decomposition" and culprit.what:
        return f"It passes if `{culprit.what}` is not decomposed."
    what = f"`{culprit.what}` of " if culprit.what else ""
    return f"It passes if {what}Inductor's `{culprit.part}` is left out."


def _backend_table(outcomes: Mapping[str, str], text: str) -> str:
    """Return the outcomes of a script as a Markdown table; "" if there are none."""
    if not outcomes:
        return ""
    told = {name: _shorten_outcome(words) for name, words in outcomes.items()}
    rows = [f"| {f'`{name}`' if '=' in name else name} | {told[name]} |" for name in outcomes]
    options = ", ".join(_other_options(text))
    head = f"`torch.compile(…, {options})`" if options else "`torch.compile`"
    return "\n".join([f"| {head} | the script |", "|---|---|", *rows])


def _shorten_outcome(words: str) -> str:
    """Return an outcome for a table, with only the first clauses of its error."""
    outcome, colon, error = words.partition(": ")
    return f"{outcome}{colon}{first_clauses(error)}".replace("|", r"\|")


def _error_of(ran: ScriptRun | None, failure: Failure) -> str:
    """Return the traceback that a script printed, shortened.

    If `ran` is None or has no output, that of `failure`.
    """
    text = ran.output if ran is not None and ran.output else failure.details or failure.message
    starts = [text.find(start) for start in ("Traceback (most recent", "Fatal Python error")]
    begin = min((start for start in starts if start >= 0), default=0)
    return shorten_traceback(text[begin:])


def shorten_traceback(text: str) -> str:
    """Return a traceback's first and last frames, without folders, and the lines after it.

    The output of a C++ compiler is reduced to its errors, each with the lines that explain it.
    """
    text = re.sub(r'File "[^"]*/site-packages/', 'File "', text)
    text = re.sub(r"/(?:tmp|home|root|Users|work)/[^\s\"':]*/", "", text)
    lines = text.splitlines()
    failed = [i for i, line in enumerate(lines) if "CppCompileError: C++ compile error" in line]
    if failed:
        lines = [*lines[: failed[-1] + 1], "", *_compiler_errors(lines[failed[-1] :])]
    lines = [short for line in lines if (short := _shorten_line(line)) is not None]
    starts = [i for i, line in enumerate(lines) if line.startswith('  File "')]
    if len(starts) > _FRAMES + 2:
        count = len(starts) - _FRAMES - 1
        cut = lines[starts[1] : starts[-_FRAMES]]
        errors = [line for line in cut if _ERROR.match(line)][-3:]
        lines[starts[1] : starts[-_FRAMES]] = [f"  [{count} frames are left out]", *errors]
    if len(lines) > 2 * _ENDS:
        lines[_ENDS:-_ENDS] = [f"[{len(lines) - 2 * _ENDS} lines are left out]"]
    return "\n".join(lines).strip()


def _shorten_line(line: str) -> str | None:
    """Return a line if it is short or a compiler's error; None for other long lines.

    A long line that names an exception is cut.
    """
    if len(line) <= _LINE or re.search(r"\berror: ", line):
        return line
    return f"{line[:_LINE]} …" if _ERROR.match(line) else None


def _compiler_errors(lines: Sequence[str]) -> list[str]:
    """Return the first errors of a C++ compiler, each with the lines that explain it."""
    found: list[str] = []
    starts = [i for i, line in enumerate(lines) if re.search(r"\berror: ", line)]
    for start in starts[:_ERRORS]:
        found.append(lines[start])
        for line in lines[start + 1 : start + 1 + _CONTEXT]:
            if not re.match(r"\s*\d*\s*\|", line):
                break
            found.append(line)
    return found


def versions() -> str:
    """Return the versions and the machine as `python -m torch.utils.collect_env` prints them."""
    return str(torch.utils.collect_env.get_pretty_env_info()).strip()
