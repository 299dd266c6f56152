"""Proposals to remove settings, seeds and options that the failure does not need."""

from __future__ import annotations

import re

import libcst as cst

from fullgraph.minifier.reduce.source.source_tree import (
    SourceTree,
    TreeEdit,
    remove_node,
    replace_always,
)

_SETTING = re.compile(r"torch\.\w+(\.\w+)*\.?config\.[\w.]+ = |torch\.set_\w+\(")
"""Matches a statement that changes a setting."""
_RANDOM = re.compile(
    r"\btorch\.(rand|normal|bernoulli)|\bnn\.[A-Z]|\.(uniform|normal|random|bernoulli)_\(|dropout"
)
"""Matches a call that may draw random numbers."""
_SEED = "torch.manual_seed("
_OPTIONS = {
    "torch.compile": (("dynamic",), ("fullgraph",), ("mode",), ("options",)),
    "torch.testing.assert_close": (("rtol", "atol"), ("equal_nan",), ("msg",)),
}
"""Keyword arguments to remove, by function; those of a group are removed together."""


def drop_settings(tree: SourceTree) -> list[TreeEdit]:
    """Propose to remove each setting, all seeds together, and each top-level `with`.

    The body of a `with` stays, and so do seeds of random numbers on which a quoted result depends.
    """
    lines = tree.nodes_of_kind(cst.SimpleStatementLine)
    found = [remove_node(line) for line in lines if _SETTING.match(tree.code(line).strip())]
    seeds = [line for line in lines if tree.code(line).strip().startswith(_SEED)]
    code = tree.module.code
    quotes_numbers = "# expected " in code and _RANDOM.search(code)
    if seeds and not quotes_numbers:
        found.append(TreeEdit({line: lambda now: cst.RemoveFromParent() for line in seeds}))
    for block in tree.nodes_of_kind(cst.With):
        if tree.parents[block] is tree.module and isinstance(block.body, cst.IndentedBlock):
            found.append(TreeEdit({block: replace_always(cst.FlattenSentinel(block.body.body))}))
    return found


def drop_options(tree: SourceTree) -> list[TreeEdit]:
    """Propose to remove each option of `torch.compile` and of `assert_close`."""
    found = []
    for call in tree.nodes_of_kind(cst.Call):
        for group in _OPTIONS.get(tree.code(call.func), ()):
            args = [arg for arg in call.args if arg.keyword and arg.keyword.value in group]
            if args:
                found.append(TreeEdit({arg: lambda now: cst.RemoveFromParent() for arg in args}))
    return found
