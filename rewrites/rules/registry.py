"""Registry of the rules."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType

from fullgraph.rewrites.rule import Rule


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return all rules, sorted by code; the modules of this folder define them."""
    folders = pkgutil.iter_modules([str(Path(__file__).parent)])
    rules = rules_of_topics(tuple(info.name for info in folders if info.ispkg))
    codes = [rule.code for rule in rules]
    assert len(set(codes)) == len(codes), f"two rules share a code: {codes}"
    return rules


@cache
def rules_of_topics(topics: tuple[str, ...]) -> tuple[Rule, ...]:
    """Return the rules in the folders `topics`, sorted by code, without importing other rules."""
    found = []
    for topic in topics:
        package = f"{__name__.rpartition('.')[0]}.{topic}"
        for info in pkgutil.iter_modules([str(Path(__file__).parent / topic)]):
            module = importlib.import_module(f"{package}.{info.name}")
            found.append(_with_documentation(module))
    return tuple(sorted(found, key=lambda rule: rule.code))


def _with_documentation(module: ModuleType) -> Rule:
    """Return the rule of a module, with the module's docstring as its documentation."""
    rule: Rule = module.RULE
    doc = (module.__doc__ or "").strip()
    summary = doc.partition("\n")[0]
    topic = module.__name__.split(".")[-2]
    return replace(rule, summary=summary, doc=doc, topic=topic)


def select_rules(
    rules: Iterable[Rule], select: Collection[str], ignore: Collection[str]
) -> list[Rule]:
    """Return the rules whose code or name starts with a prefix in `select` and none in `ignore`.

    An empty `select` selects all rules.
    """
    return [
        rule
        for rule in rules
        if (not select or _matches_prefix(rule, select)) and not _matches_prefix(rule, ignore)
    ]


def _matches_prefix(rule: Rule, prefixes: Collection[str]) -> bool:
    return any(rule.code.startswith(p) or rule.name.startswith(p) for p in prefixes)
