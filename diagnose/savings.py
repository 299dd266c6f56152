"""What joining the graphs on both sides of a break would save, estimated per cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from fullgraph.compiler.events import Graph
from fullgraph.compiler.lowering.cost import Device, add_savings, estimate_saving
from fullgraph.compiler.operations import Saving
from fullgraph.diagnose.explanation_data import Cause


def estimate_savings(graphs: tuple[Graph, ...], device: Device) -> tuple[Saving | None, ...]:
    """Return what joining each graph with the next one would save on `device`.

    The last graph has no entry. An entry is None if the operators of one of the two graphs are
    unknown, or if the graphs belong to different phases.
    """
    return tuple(
        estimate_saving(one.operators, other.operators, device)
        if one.operators is not None and other.operators is not None and one.phase == other.phase
        else None
        for one, other in pairwise(graphs)
    )


def add_estimates(causes: Iterable[Cause], savings: tuple[Saving | None, ...]) -> tuple[Cause, ...]:
    """Return `causes`, each with what joining the graphs that it separates would save.

    `savings` is the result of `estimate_savings` for the graphs of the first call. A cause gets no
    estimate if the operators of a graph on either side are unknown.
    """
    return tuple(replace(cause, saving=_saving_of(cause, savings)) for cause in causes)


def _saving_of(cause: Cause, savings: tuple[Saving | None, ...]) -> Saving | None:
    """Return what is saved if each graph that ended at `cause` is joined with the next graph.

    `savings` holds the saving of joining graph 1 with graph 2, then graph 2 with graph 3, and so
    on. Return None if no saving is known for this cause.
    """
    found = [
        saving
        for number, saving in enumerate(savings, 1)
        if saving is not None and f"G{number}" in cause.graphs
    ]
    return add_savings(found) if found else None
