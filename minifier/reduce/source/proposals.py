"""Search that tries proposed edits of a text: many at once, or one by one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import libcst as cst

from fullgraph.minifier.emit.spacing import space_definitions
from fullgraph.minifier.oracle.oracle import OutOfBudget
from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce.source.entry_point import find_entry
from fullgraph.minifier.reduce.source.formatting import (
    drop_unbound,
    drop_unreachable,
)
from fullgraph.minifier.reduce.source.observe import ObservedRun, observe_text
from fullgraph.minifier.reduce.source.source_tree import SourceTree, TreeEdit
from fullgraph.minifier.reduce.source.unbound_names import find_names
from fullgraph.minifier.reduce.subsets import take_most

Propose = Callable[[SourceTree], Sequence[TreeEdit]]
"""A pass: returns the edits that it proposes for a text."""


class ProposalSearch:
    """Search that applies proposed edits to a source text and keeps those with which it fails."""

    def __init__(
        self, problem: Problem[str], on_error: Callable[[str, Exception], None] | None = None
    ) -> None:
        """`on_error` receives the name of a pass that raises, and the exception."""
        self.problem, self._on_error = problem, on_error
        self.drops_unreachable = True
        """Whether each change also removes the code that becomes unreachable."""
        tree = ast.parse(problem.current)
        self._names, self._has_entry = find_names(tree), find_entry(tree) is not None
        self._tree: SourceTree | None = None
        self._facts: tuple[str, ObservedRun] | None = None

    @property
    def tree(self) -> SourceTree:
        """Syntax tree of the current text."""
        if self._tree is None or self._tree.text != self.problem.current:
            self._tree = SourceTree(self.problem.current)
        return self._tree

    @property
    def facts(self) -> ObservedRun:
        """Values, lines and calls in a run of the current text."""
        if self._facts is None or self._facts[0] != self.problem.current:
            self._facts = self.problem.current, observe_text(self.problem.current)
        return self._facts[1]

    def prepare(self, text: str | None) -> str | None:
        """Return an edited text without dead code; None if it is invalid or unchanged."""
        text = text and drop_unbound(text, self._names)
        if text is None:
            return None
        if self.drops_unreachable:
            text = drop_unreachable(text)
        text = space_definitions(text)
        if self._has_entry and find_entry(ast.parse(text)) is None:
            return None
        return None if text == self.problem.current else text

    def try_texts(self, *texts: str | None) -> bool:
        """Make the first of `texts` that fails in the same way current; return whether one does."""
        return self.problem.first(t for t in map(self.prepare, texts) if t is not None)

    def apply_most(self, propose: Propose, chunk: int = 0) -> bool:
        """Apply as many of the proposed edits as possible; return whether any was applied.

        All are tried at once, or `chunk` at a time; those that do not fail are split into halves.
        """
        tree, start = self.tree, self.problem.current

        def build(edits: Sequence[TreeEdit]) -> list[str]:
            """Return the text after these edits, as a list; [] if it need not be tried."""
            text = self.with_edits(tree, edits)
            return [] if text is None else [text]

        with self._tolerating(propose):
            take_most(self.problem, propose(tree), build, lambda edit: edit.size, chunk=chunk)
        return self.problem.current != start

    def apply_each(self, propose: Propose) -> bool:
        """Apply the proposed edits one by one; return whether any was applied."""
        start, index = self.problem.current, 0
        with self._tolerating(propose):
            while True:
                tree = self.tree
                edits = propose(tree)[index:]
                numbers: dict[str, int] = {}
                if not self.problem.first(self._edited_texts(tree, edits, numbers)):
                    break
                index += numbers[self.problem.current]
        return self.problem.current != start

    @contextmanager
    def _tolerating(self, propose: Propose) -> Iterator[None]:
        """Catch an exception of a pass in the block, and report it to `on_error`.

        Without `on_error` it is raised. The text that was reached before is kept.
        """
        try:
            yield
        except OutOfBudget:
            raise
        except Exception as error:
            if self._on_error is None:
                raise
            self._on_error(f"source ({getattr(propose, '__name__', 'edits')})", error)

    def _edited_texts(
        self, tree: SourceTree, edits: Sequence[TreeEdit], numbers: dict[str, int]
    ) -> Iterator[str]:
        """Yield the text after each single edit; record the edit's number by text in `numbers`."""
        for number, edit in enumerate(edits):
            text = self.with_edits(tree, [edit])
            if text is not None:
                numbers.setdefault(text, number)
                yield text

    def with_edits(self, tree: SourceTree, edits: Sequence[TreeEdit]) -> str | None:
        """Return the text of `tree` after `edits`; None if it need not be tried."""
        try:
            return self.prepare(tree.with_edits(edits))
        except cst.CSTValidationError:
            return None
