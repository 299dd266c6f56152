"""Report of the operators of a graph by tier, and of those in neither."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch

from fullgraph.compiler.lowering.prims.canonical import canonical_kind
from fullgraph.compiler.lowering.prims.extern import extern_reason
from fullgraph.compiler.lowering.prims.prim_table import find_prim

Tier = Literal["canonical", "prims"]


@dataclass(frozen=True)
class TierReport:
    """Number of calls of each operator of a graph, by what one tier says of it."""

    tier: Tier
    inside: Mapping[str, int]
    """Calls of operators of the tier."""
    extern: Mapping[str, int]
    """Calls of extern operators, by "aten.mm.default (matrix product)"."""
    outside: Mapping[str, int]
    """Calls of operators that are neither; the graph is closed if there are none."""

    @property
    def is_closed(self) -> bool:
        """Return whether every operator is in the tier or extern."""
        return not self.outside

    def __str__(self) -> str:
        calls = sum(self.inside.values())
        lines = [f"{calls} calls of {len(self.inside)} {self.tier} operators"]
        lines += [f"extern: {name} × {count}" for name, count in self.extern.items()]
        lines += [f"outside: {name} × {count}" for name, count in self.outside.items()]
        return "\n".join(lines)


def report(module: torch.fx.GraphModule, tier: Tier = "canonical") -> TierReport:
    """Return which operators of a graph are in a tier, extern, or outside both.

    The nodes of the graph need examples in `meta["val"]`.
    """
    inside: Counter[str] = Counter()
    extern: Counter[str] = Counter()
    outside: Counter[str] = Counter()
    for node in module.graph.nodes:
        if node.op not in ("call_function", "call_method", "call_module"):
            continue
        name, reason = _target_name(node), extern_reason(node)
        if reason is not None:
            extern[f"{name} ({reason})"] += 1
        elif node.op == "call_function" and _is_in_tier(node.target, tier):
            inside[name] += 1
        else:
            outside[name] += 1
    return TierReport(tier, inside, extern, outside)


def _is_in_tier(target: object, tier: Tier) -> bool:
    """Return whether a function is one of a tier's operators."""
    if tier == "canonical":
        return canonical_kind(target) is not None
    is_bookkeeping = canonical_kind(target) in ("symbolic", "assertion")  # part of both tiers
    return find_prim(target) is not None or is_bookkeeping


def _target_name(node: torch.fx.Node) -> str:
    """Return the name of what a node calls: "aten.add.Tensor"."""
    is_operator = isinstance(node.target, torch._ops.OpOverload | str)
    return str(node.target if is_operator else getattr(node.target, "__name__", node.target))
