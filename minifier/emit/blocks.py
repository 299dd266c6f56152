"""Statements of a function under construction, and the `with` blocks that contain them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import fx

from fullgraph.compiler.private import RegionCall
from fullgraph.minifier.emit import syntax

Write = Callable[[object], ast.expr]
"""Returns the expression of a node's argument."""


@dataclass
class _Block:
    """An open block: the function's body, or a `with` block and the node that opened it."""

    body: list[ast.stmt]
    kind: str
    """One of "function", "grad", "inference", "autocast" or "sdpa"."""
    begins: fx.Node | None = None


class Blocks:
    """Nested blocks of a function that is being written, such as `with torch.no_grad():`.

    New statements are added to the innermost block.
    """

    def __init__(self) -> None:
        self._blocks = [_Block([], "function")]
        self._start = self._grad = torch.is_grad_enabled()
        """Grad mode at the beginning of the function, and after the last statement so far."""

    def add(self, statement: ast.stmt) -> None:
        """Add a statement to the innermost open block."""
        self._blocks[-1].body.append(statement)

    @property
    def open(self) -> list[ast.stmt]:
        """Return the statements of the innermost open block."""
        return self._blocks[-1].body

    @property
    def nested(self) -> bool:
        """Return whether a `with` block is open."""
        return len(self._blocks) > 1

    def switch(self, node: fx.Node, region: RegionCall, write: Write) -> None:
        """Begin or end the `with` block that `node` begins or ends."""
        match region.kind:
            case "end":
                self._close_block(node.args[0])
            case "grad":
                self._set_grad(bool(node.args[0]))
            case "sdpa" if self._blocks[-1].kind == "sdpa":
                self._blocks.pop()
            case kind:
                self._open_block(node, kind, _context_expression(kind, node, write))

    def close(self) -> None:
        """Close all `with` blocks, so that later statements are not inside any."""
        del self._blocks[1:]

    def body(self) -> list[ast.stmt]:
        """Return the function's statements, without `with` blocks that are empty."""
        return _without_empty_blocks(self._blocks[0].body) or [ast.Pass()]

    def _open_block(self, node: fx.Node | None, kind: str, context: ast.expr) -> None:
        """Open a `with` block of `context`; later statements go into it."""
        body: list[ast.stmt] = []
        self.add(ast.With([ast.withitem(context)], body))
        self._blocks.append(_Block(body, kind, node))

    def _close_block(self, begins: object) -> None:
        """Close the block that the node `begins` opened, and the blocks inside it.

        A grad mode that was set inside is set again after the block.
        """
        if all(block.begins is not begins for block in self._blocks):
            return
        while self._blocks.pop().begins is not begins:
            pass
        inside = any(block.kind == "grad" for block in self._blocks)
        if self._grad != self._start and not inside:
            self._open_block(None, "grad", _grad_mode(self._grad))

    def _set_grad(self, on: bool) -> None:
        """Switch grad mode: open a `with` block for it, or close the block that had changed it."""
        if on == self._grad:
            return
        self._grad = on
        if self._blocks[-1].kind == "grad":
            self._blocks.pop()
        if on != self._start:
            self._open_block(None, "grad", _grad_mode(on))


def _context_expression(kind: str, node: fx.Node, write: Write) -> ast.expr:
    """Return the context manager of a block, such as `torch.autocast("cpu")`.

    `kind` is "inference", "sdpa" or "autocast". `node` is the call that opens the block; `write`
    returns the expression of one of its arguments.
    """
    if kind == "inference":
        return syntax.call(syntax.path("torch.inference_mode"), [], {})
    if kind == "sdpa":
        return syntax.call(syntax.path("torch.nn.attention.sdpa_kernel"), [write(node.args[0])], {})
    device, dtype, enabled, cache = (*node.args, None, None, None)[:4]
    wanted: Mapping[str, object] = {"dtype": dtype, "enabled": enabled, "cache_enabled": cache}
    told = {
        key: write(arg)
        for key, arg in wanted.items()
        if arg is not None and (key == "dtype" or arg is not True)
    }
    return syntax.call(syntax.path("torch.autocast"), [write(device)], told)


def _grad_mode(on: bool) -> ast.expr:
    return syntax.call(syntax.path("torch.enable_grad" if on else "torch.no_grad"), [], {})


def _without_empty_blocks(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return `body` after removing every `with` block that has no statements left."""
    kept = []
    for statement in body:
        if isinstance(statement, ast.With):
            statement.body = _without_empty_blocks(statement.body)
            if not statement.body:
                continue
        kept.append(statement)
    return kept
