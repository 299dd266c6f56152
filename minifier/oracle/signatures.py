"""Messages and names without the parts that vary between copies of a program."""

from __future__ import annotations

import re
import sys

_LENGTH = 200
"""Maximum number of characters of a normalized message."""
_LIBRARIES = frozenset(
    {*sys.stdlib_module_names, "torch", "torchvision", "functorch", "triton", "sympy"}
    | {"numpy", "np", "aten", "prims", "prim", "inductor", "quantized", "self"}
) - {"__main__"}
"""First parts of dotted names that are the same in every copy, such as those of libraries."""
_QUALIFIER = re.compile(r"(?<![\w.])(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")
_SCOPE = re.compile(r"(?:[A-Za-z_][\w.]*\.)?<locals>\.")

_GENERATED = (
    (r"\b0x[0-9a-fA-F]+", "X"),
    (r"\b[0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12}\b", "X"),
    (r"(?:/[\w.+@-]+){2,}|<ipython-input-[^>]*>|<string>|<stdin>", "PATH"),
    (r"\b[\w./+@-]*\w\.(?:pyc?|cpp|cu|so|json|pt)\b", "PATH"),
    (r"\b[LG]\[(?:'[^']*'|\"[^\"]*\"|\w+)\](?:\.\w+|\[[^\]]*\])*", "SOURCE"),
    (r"\bL_\w+_\b|\b___\w+|\b__compiled_fn_\w+", "NAME"),
    (r"\b(?:torch_dynamo)?_*resume_(?:in_\w+_)?at_\d+(?:_\d+)?\b", "NAME"),
)
"""Patterns of generated text: addresses, ids, temporary files, sources, names."""
_NUMBERS = (
    (r"(?<=[a-zA-Z_])\d+|\d+", "N"),
    (r"(?<=\w)_N\b", ""),  # the number of a copy's own name
    (r"-?\bN(?:\.N)?(?:e[+-]?N)?\b", "N"),
    (r"([\[(])N(?:, ?N)*,?([\])])", r"\1N\2"),
)


_FAKE_CALL = re.compile(
    r"when making fake tensor call\n.*?: got (\w+)\((['\"])(.*?)\2\)$", re.DOTALL | re.MULTILINE
)


def normalize_message(message: str) -> str:
    """Return a message's first line without numbers, paths, modules and generated names.

    Copies of a program in different files, modules or scopes have equal normalized messages.
    """
    line = next((line for line in message.splitlines() if line.strip()), "")
    for pattern, name in _GENERATED:
        line = re.sub(pattern, name, line)
    line = strip_qualifiers(line)
    for pattern, name in _NUMBERS:
        line = re.sub(pattern, name, line)
    return line.strip()[:_LENGTH]


def find_fake_tensor_error(text: str) -> str:
    """Return the operator's error in Dynamo's message on a call with fake tensors.

    For example "RuntimeError: shape '[2, 2]' is invalid"; "" if the text is no such message.
    """
    found = _FAKE_CALL.search(text)
    return f"{found[1]}: {found[3]}" if found is not None else ""


def strip_qualifiers(text: str) -> str:
    """Return a text in which classes and functions of the program have no module and scope.

    "candidate.Proxy" and "build.<locals>.Proxy" become "Proxy"; "torch.float32" stays.
    """
    return _QUALIFIER.sub(_keep_library, _SCOPE.sub("", text))


def _keep_library(match: re.Match[str]) -> str:
    """Return the matched qualifier, such as "torch.", if it is a library's; "" otherwise."""
    return match.group() if match.group().partition(".")[0] in _LIBRARIES else ""
