"""Text of an issue: what is wrong, the script, the error, versions, and where it begins."""

from __future__ import annotations

import ast
import importlib.metadata
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Protocol

import torch

from fullgraph.minifier.oracle.failure import Failure, Kind
from fullgraph.minifier.repro.script import ScriptCheck, backend_of
from fullgraph.minifier.rungs.bisection import Bisection

_FRAMES = 6
"""Frames shown at the end of a traceback."""
_ENDS = 26
"""Lines shown of the beginning and of the end of a long text."""
_LINE = 200
"""Characters shown of a line."""
_WIDE = 88
"""Characters of each part of a title."""


class CheckedScript(Protocol):
    """The attributes of `Minified` that an issue's text needs."""

    @property
    def bisection(self) -> Bisection: ...
    @property
    def check(self) -> ScriptCheck | None: ...
    @property
    def text(self) -> str: ...
    @property
    def standalone(self) -> bool: ...


def issue(found: CheckedScript) -> str:
    """Return the issue of a script in Markdown; its first line is the title."""
    failure, check = found.bisection.failure, found.check
    if failure is None or check is None:
        return ""
    backend = backend_of(found.text) or failure.rung
    title = title_of(check, backend, operators(found.text))
    parts = [
        title,
        f"### Describe the bug\n\n{_summary_sentence(check, failure, found)}",
        f"```python\n{found.text.rstrip()}\n```",
        _backend_table(found),
        f"### Error\n\n```\n{shorten_traceback(failure.details or failure.message)}\n```",
        "### Versions\n\n" + "\n".join(f"- {line}" for line in versions()),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def title_of(check: ScriptCheck, backend: str, names: tuple[str, ...]) -> str:
    """Return the issue's title: what fails, and with which operators."""
    what = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
    of = f" of {what}" if what else ""
    start = f"torch.compile(backend={backend!r})".replace("'", '"')
    match check.kind:
        case Kind.RESULT:
            told = f"wrong result{of}: {check.got} instead of {check.expected}"
        case Kind.METADATA:
            told = f"wrong {check.aspect}{of}: {check.got} instead of {check.expected}"
        case Kind.GRADIENT:
            told = f"wrong gradient{of}: {check.got} instead of {check.expected}"
        case Kind.MUTATION:
            place = "an input" if check.where.startswith("input[") else check.where
            told = f"wrong value left in {place} by {what or 'the program'}"
        case Kind.CRASH:
            told = f"{' '.join(check.signature) or 'crash'}{of and f' in {what}'}"
        case Kind.HANG:
            told = f"does not end{of and f' compiling {what}'}"
        case Kind.MEMORY:
            told = f"runs out of memory{of and f' in {what}'}"
        case Kind.BREAK:
            told = f"graph break: {_clip_line(check.got)}"
        case Kind.RECOMPILE:
            told = f"compiles again at every call{of}"
        case Kind.SLOW:
            told = f"slower than eager{of}: {check.got}"
        case _:
            told = f"{_clip_line(check.got)}{of and f' ({what})'}"
    return f"{start}: {told}"


def operators(text: str) -> tuple[str, ...]:
    """Return the distinct operators that a script's functions call, in order.

    "torch.cat", "Tensor.exp"; if they call nothing, Python's operators: "add"."""
    every = ast.walk(ast.parse(text))
    functions = [n for n in every if isinstance(n, ast.FunctionDef) and n.name != "inputs"]
    nodes = [node for function in functions for node in ast.walk(function)]
    calls = [n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    calls.sort(key=lambda call: (call.end_lineno, call.end_col_offset))
    names = [_public_name(call.func) for call in calls if isinstance(call.func, ast.Attribute)]
    signs = [type(node.op).__name__.lower() for node in nodes if isinstance(node, ast.BinOp)]
    return tuple(dict.fromkeys(names or signs))


def _public_name(function: ast.Attribute) -> str:
    """Return "torch.name" for a function, "Tensor.name" for a method."""
    whole = ast.unparse(function)
    return whole if whole.startswith("torch.") else f"Tensor.{function.attr}"


def _clip_line(text: str) -> str:
    """Return the first line of a text, shortened."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= _WIDE else line[: _WIDE - 2].rstrip() + " …"


def _summary_sentence(check: ScriptCheck, failure: Failure, found: CheckedScript) -> str:
    """Return a sentence: eager's result, the compiled program's, and the first failing backend."""
    match check.kind:
        case Kind.RESULT | Kind.METADATA | Kind.GRADIENT | Kind.MUTATION:
            aspect = "" if check.aspect == "value" else f" ({check.aspect})"
            told = f"{check.where}{aspect}: eager gives {check.expected}, compiled {check.got}."
        case Kind.CRASH:
            told = f"Eager runs; the compiled program dies of {' '.join(check.signature)}."
        case _:
            told = f"Eager runs; compiled: {_clip_line(failure.message)}"
    lower = _last_good(found)
    began = f" `{lower}` is right; it begins at `{failure.rung}`." if lower else ""
    alone = "The script is self-contained." if found.standalone else ""
    return f"{told}{began} {alone}".strip()


def _last_good(found: CheckedScript) -> str:
    """Return the last rung before the failing one."""
    good = ""
    for name, ended in found.bisection.rungs.items():
        if ended is not None and ended.failure is not None:
            return good
        good = name
    return good


def _backend_table(found: CheckedScript) -> str:
    """Return the outcomes of all rungs as a Markdown table."""
    rows = [f"| {name} | {told} |" for name, told in found.bisection.table()]
    lines = ["| backend | outcome |", "|---|---|", *rows]
    if found.bisection.culprit:
        lines += ["", f"Without this part it does not fail: {found.bisection.culprit}."]
    return "\n".join(lines)


def shorten_traceback(text: str) -> str:
    """Return a traceback's last frames without folders; of a C++ compiler's output, the errors."""
    text = re.sub(r'File "[^"]*/site-packages/', 'File "', text)
    text = re.sub(r"/(?:tmp|home|root|Users|work)/[^\s\"':]*/", "", text)
    lines = [line if len(line) <= _LINE else line[:_LINE] + " …" for line in text.splitlines()]
    starts = [i for i, line in enumerate(lines) if line.startswith('  File "')]
    if len(starts) > _FRAMES + 1:
        lines[starts[0] : starts[-_FRAMES]] = ["  …"]
    if len(lines) > 2 * _ENDS:
        middle = [line for line in lines[_ENDS:-_ENDS] if re.search(r"\berror: ", line)]
        lines[_ENDS:-_ENDS] = ["…", *middle[:3], "…"] if middle else ["…"]
    return "\n".join(lines).strip()


def versions() -> list[str]:
    """Return what `torch.utils.collect_env` lists first: torch, the machine, compilers."""
    lines = [
        f"PyTorch {torch.__version__} (git {str(torch.version.git_version)[:10]})",
        f"CUDA {torch.version.cuda or 'none'}, ROCm {torch.version.hip or 'none'}",
        f"Python {platform.python_version()} on {platform.platform()}",
        f"CPU {_processor_name()}, capability {torch.backends.cpu.get_cpu_capability()}",
    ]
    if torch.version.cuda and torch.cuda.is_available():
        lines.append(f"GPU {torch.cuda.get_device_name(0)}")
    compiler = _compiler_version()
    if compiler:
        lines.append(compiler)
    for name in ("triton", "numpy"):
        try:
            lines.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return lines


def _processor_name() -> str:
    """Return the model name of the processor."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else platform.machine()


def _compiler_version() -> str:
    """Return the first line of the C++ compiler's version; "" without one."""
    path = shutil.which("g++") or shutil.which("clang++")
    if path is None:
        return ""
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return told.stdout.partition("\n")[0]
