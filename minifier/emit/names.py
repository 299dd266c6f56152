"""Readable names for a graph's values."""

from __future__ import annotations

import re

from torch import fx

from fullgraph.minifier.emit.syntax import RESERVED

_LETTERS = ("x", "y", "z", "w")
_LONG = 20
"""Maximum number of characters of a name; a longer one keeps only its last words."""


class Names:
    """Unique names of the values of one function."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def argument(self, node: fx.Node) -> str:
        """Return a new name for a placeholder: `weight` for `L_self_modules_fc_parameters_weight_`.

        `x`, `y`, … for an input that Dynamo did not name.
        """
        base = _name_of_placeholder(str(node.target))
        if base in _LETTERS:
            for letter in _LETTERS[_LETTERS.index(base) :]:
                if letter not in self._taken:
                    return self._claim(letter)
        return self._claim_free(base, 2, "")

    def local(self, node: fx.Node) -> str:
        """Return a new name for a node: `relu` for the first `relu_12`, `relu_1` for the next."""
        return self._claim_free(_identifier(re.sub(r"_\d+$", "", node.name)), 1, "_")

    def other(self, base: str) -> str:
        """Return a new name like `base`, for a variable that is not a node."""
        return self._claim_free(_identifier(base), 1, "_")

    def nested(self, target: str) -> str:
        """Return a new name for the function of a submodule: `true_fn` for `cond_true_0`."""
        for part, name in (("true", "true_fn"), ("false", "false_fn"), ("cond_fn", "cond_fn")):
            if part in target:
                return self.other(name)
        is_body = "body" in target or "wrap" in target or "subgraph" in target
        return self.other("body" if is_body else target)

    def _claim_free(self, base: str, first: int, between: str) -> str:
        """Reserve and return `base`, or `base`, `between` and a number if `base` is taken.

        Numbers count from `first`.
        """
        if base not in self._taken and base not in RESERVED:
            return self._claim(base)
        while f"{base}{between}{first}" in self._taken:
            first += 1
        return self._claim(f"{base}{between}{first}")

    def _claim(self, name: str) -> str:
        """Reserve a name and return it."""
        self._taken.add(name)
        return name


def _name_of_placeholder(target: str) -> str:
    """Return a short name for a placeholder: `weight` for "L_self_parameters_weight_"."""
    member = re.search(r"_(?:parameters|buffers|params)_+(.+?)_*$", target)
    if member is not None:
        return _identifier(member[1] if not member[1][0].isdigit() else "weight")
    target = re.sub(r"^[LG]_+", "", target, flags=re.IGNORECASE).strip("_")
    if re.fullmatch(r"(stack|arg|args|args_|primals|tangents|arg\d+)_?\d+", target):
        return "grad" if target.startswith("tangents") else "x"
    target = re.sub(r"(?<=[a-z])_\d+$", "", target)
    for prefix in ("self_", "kwargs_", "args_", "fn_"):
        target = target.removeprefix(prefix)
    if "modules_" in target:
        target = target.rpartition("modules_")[2]
    return _identifier(target)


def _identifier(name: str) -> str:
    """Return `name` as an identifier; "x" if it is empty or begins with a digit.

    While it has more than 20 characters, the word before its first underscore is removed.
    """
    name = re.sub(r"\W+", "_", name).strip("_")
    while len(name) > _LONG and "_" in name:
        name = name.partition("_")[2]
    return name if name and not name[0].isdigit() else "x"
