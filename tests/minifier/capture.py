"""Graphs for tests, as Dynamo captures them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fullgraph.compiler.private import capture_graph
from fullgraph.minifier.graphs import BoundGraph


def capture_graphs(
    function: Callable[..., Any], *inputs: Any, dynamic: bool | None = None
) -> BoundGraph:
    """The first graph of `function`, with what it is called with."""
    torch._dynamo.reset()
    found = capture_graph(
        lambda backend: torch.compile(function, backend=backend, dynamic=dynamic)(*inputs), 0
    )
    assert found is not None
    return BoundGraph(*found)
