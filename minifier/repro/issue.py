"""Text of an issue: what is wrong, the script, its outcome by backend, the error, versions."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Protocol

import torch.utils.collect_env

from fullgraph.minifier.oracle.failure import Failure, Kind
from fullgraph.minifier.repro.backend_outcomes import PASSES
from fullgraph.minifier.repro.fresh_interpreter import ScriptRun
from fullgraph.minifier.repro.operator_names import operators
from fullgraph.minifier.repro.script import ScriptCheck
from fullgraph.minifier.repro.script_text import backend_of, compared_expressions
from fullgraph.minifier.rungs.bisection import Bisection
from fullgraph.minifier.rungs.culprit import Culprit

_FRAMES = 6
"""Frames shown at the end of a traceback."""
_ENDS = 26
"""Lines shown of the beginning and of the end of a long text."""
_ERRORS = 3
"""Errors shown of a C++ compiler."""
_CONTEXT = 5
"""Lines of source shown after each."""
_LINE = 200
"""Characters of the longest line that is shown."""
_WIDE = 100
"""Characters of an error in a title."""
_SHORT = 40
"""Characters of a value in a title."""
_TYPES = re.compile(r"(?:[\w.]+: )*[\w.]+")
"""Types of exceptions alone: "TorchRuntimeError: RuntimeError"."""
_ELEMENTS = ("nan", "infinite", "value")
"""Aspects of one element of a result."""
_STAGES = {
    "eager": "Dynamo",
    "aot_eager": "AOTAutograd",
    "aot_eager_decomp_partition": "AOTAutograd's decompositions or its partitioner",
    "inductor": "Inductor",
}
"""The stage that each backend is the first to run."""


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
    """Return the issue of a script in Markdown; its first line is the title."""
    failure, check = found.bisection.failure, found.check
    if failure is None or check is None:
        return ""
    backend = backend_of(found.text) or failure.rung
    describe = [summarize(check, backend, found.text), _name_stage(backend, found.outcomes)]
    culprit = found.bisection.culprit
    if culprit is not None:
        describe.append(describe_culprit(culprit, found.ops_aten))
    parts = [
        title_of(check, backend, operators(found.text), found.text),
        f"### 🐛 Describe the bug\n\n{' '.join(filter(None, describe))}",
        f"```python\n{found.text.rstrip()}\n```",
        _backend_table(found.outcomes),
        f"### Error logs\n\n```\n{_error_of(found.ran, failure)}\n```",
        f"### Versions\n\n```\n{versions()}\n```",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def title_of(check: ScriptCheck, backend: str, names: tuple[str, ...], text: str = "") -> str:
    """Return the issue's title: what fails, and with which operators. `text` is the script."""
    what = ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")
    of = f" of {what}" if what else ""
    values = f": {check.got} instead of {check.expected}"
    values = values if max(len(check.got), len(check.expected)) <= _SHORT else ""
    match check.kind:
        case Kind.RESULT | Kind.METADATA:
            aspect = check.aspect if check.aspect not in _ELEMENTS else "result"
            whose = of or ("" if aspect == "result" else " of the result")
            told = f"wrong {aspect}{whose}{values}"
        case Kind.GRADIENT:
            told = f"wrong gradient{of}{values}"
        case Kind.MUTATION:
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
    """Return the call of `torch.compile` with the options that a script gives."""
    options = [f'backend="{backend}"']
    options += [
        f"{keyword.arg}={keyword.value.value!r}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.compile"
        for keyword in node.keywords
        if keyword.arg != "backend" and isinstance(keyword.value, ast.Constant)
    ]
    return f"torch.compile({', '.join(options)})"


def first_clauses(text: str) -> str:
    """Return the first line of an error, up to the last whole clause that fits into a title.

    Where only the exception's type fits, the words after it that fit follow, and "…"."""
    line = text.strip().partition("\n")[0].rstrip(".")
    if len(line) <= _WIDE:
        return line
    ends = [end.start() for end in re.finditer(r"(?:\. |: |; |, | \()", line)]
    fitting = [end for end in ends if end <= _WIDE]
    clauses = line[: fitting[-1]] if fitting else line.partition(" ")[0].rstrip(":")
    words = line[:_WIDE].rpartition(" ")[0].rstrip(" :,;")
    return f"{words} …" if _TYPES.fullmatch(clauses) and len(words) > len(clauses) else clauses


def summarize(check: ScriptCheck, backend: str, text: str) -> str:
    """Return a sentence on what the compiled script does, and what eager does."""
    compiled = f"`{_call_of(backend, text)}`"
    pair = f"{_code(check.got)} under {compiled} and {_code(check.expected)} in eager"
    match check.kind:
        case Kind.RESULT | Kind.METADATA:
            if check.aspect in _ELEMENTS:
                return (
                    f"The result has {_code(check.got)} under {compiled} where it has "
                    f"{_code(check.expected)} in eager."
                )
            return f"The {check.aspect} of the result is {pair}."
        case Kind.GRADIENT:
            return f"The gradient of `{_place_of(text) or check.where}` is {pair}."
        case Kind.MUTATION:
            return f"After the call, `{_place_of(text) or check.where}` is {pair}."
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
    return f"The script runs in eager. It raises under {compiled}: {_code(check.got)}."


def _code(text: str) -> str:
    return f"`{text.rstrip('.')}`"


def _place_of(text: str) -> str:
    """Return what a script compares, without `.grad`; "" if it is a result."""
    compared = compared_expressions(text)
    place = compared[0].removesuffix(".grad") if compared is not None else ""
    if place != "got":
        return place
    made = re.findall(r"^ *got = (.*)$", text, re.MULTILINE)
    return made[-1] if made and "compile" not in made[-1] else ""


def _name_stage(backend: str, outcomes: Mapping[str, str]) -> str:
    """Return a sentence on the stage that fails: the first one whose backend does."""
    good = [name for name, told in outcomes.items() if told == PASSES]
    stage = _STAGES.get(backend)
    if stage is None or not good:
        return ""
    if len(good) == 1:
        alone = f'It fails with `backend="{backend}"` already, which runs {stage} alone.'
        return alone if backend == "eager" else ""
    return f"The script passes with `{good[-1]}`, so the failure begins in {stage}."


def describe_culprit(culprit: Culprit, ops_aten: int) -> str:
    """Return a sentence on the part without which the failure was seen to disappear; "" if vague.

    An operator without its lowering runs as ATen's kernel, which also ends every fusion with it: in
    a graph of several operators this names no cause."""
    if culprit.number is None:
        return f"With `{culprit.what.removesuffix(' fixes it')}` it passes."
    if culprit.part == "lowerings" and ops_aten != 1:
        return ""
    if culprit.part == "decomposition" and culprit.what:
        return f"It passes if `{culprit.what}` is not decomposed."
    what = f"`{culprit.what}` of " if culprit.what else ""
    return f"It passes if {what}Inductor's `{culprit.part}` is left out."


def _backend_table(outcomes: Mapping[str, str]) -> str:
    """Return the outcomes of the script as a Markdown table; "" if there are none."""
    if not outcomes:
        return ""
    rows = [
        f"| {f'`{name}`' if '=' in name else name} | {told.replace('|', chr(92) + '|')} |"
        for name, told in outcomes.items()
    ]
    return "\n".join(["| `torch.compile` | the script |", "|---|---|", *rows])


def _error_of(ran: ScriptRun | None, failure: Failure) -> str:
    """Return what the script prints as it fails, from its traceback on."""
    text = ran.output if ran is not None and ran.output else failure.details or failure.message
    starts = [text.find(start) for start in ("Traceback (most recent", "Fatal Python error")]
    begin = min((start for start in starts if start >= 0), default=0)
    return shorten_traceback(text[begin:])


def shorten_traceback(text: str) -> str:
    """Return a traceback's first and last frames without folders, and the lines after it.

    Of a C++ compiler's output, the errors are shown with the lines that explain them."""
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
        lines[starts[1] : starts[-_FRAMES]] = [f"  [{count} frames are left out]"]
    if len(lines) > 2 * _ENDS:
        lines[_ENDS:-_ENDS] = [f"[{len(lines) - 2 * _ENDS} lines are left out]"]
    return "\n".join(lines).strip()


def _shorten_line(line: str) -> str | None:
    """Return a line that is short or a compiler's error, an exception's cut; None for others."""
    if len(line) <= _LINE or re.search(r"\berror: ", line):
        return line
    return f"{line[:_LINE]} …" if re.match(r"[A-Za-z_][\w.]*: ", line) else None


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
    """Return versions and machine as `python -m torch.utils.collect_env` prints them."""
    return str(torch.utils.collect_env.get_pretty_env_info()).strip()
