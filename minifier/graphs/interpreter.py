"""FX interpreter that leaves the regions that it entered, also after an error."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import torch
from torch.fx import Interpreter, Node

from fullgraph.compiler.private import find_region, is_grad_switch


class RegionInterpreter(Interpreter):
    """FX interpreter that leaves the autocast and grad regions it entered, even after an error."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        calls = [node for node in module.graph.nodes if node.op.startswith("call_")]
        entered = [node for node in calls if not is_grad_switch(node)]
        self._exits = {
            node: pair[1] for node in entered if len(pair := find_region(node, calls)) > 1
        }
        self._open: list[Node] = []

    def run_inputs(self, inputs: Sequence[object]) -> None:
        """Run the graph on one value for each placeholder. Raises what a call raises."""
        grad = torch.is_grad_enabled()
        try:
            self.run(*inputs, enable_io_processing=False)
        finally:
            for left in reversed(self._open):
                with suppress(Exception):
                    super().run_node(left)
            torch.set_grad_enabled(grad)

    def run_node(self, n: Node) -> object:
        """Run a node, and keep track of the open regions."""
        if n.op == "output":
            return None
        value = super().run_node(n)
        if n in self._exits:
            self._open.append(self._exits[n])
        elif n in self._open:
            self._open.remove(n)
        return value
