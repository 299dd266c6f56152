"""Texts that are offered to a problem: in halves where many may go, one by one at the end."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce.halving import taken
from fullgraph.minifier.reduce.source import observe
from fullgraph.minifier.reduce.source.entry import entry
from fullgraph.minifier.reduce.source.formatting import repaired, shaken, spaced
from fullgraph.minifier.reduce.source.names import names
from fullgraph.minifier.reduce.source.tree import Edit, Tree

Propose = Callable[[Tree], Sequence[Edit]]


class Search:
    """The way to smaller texts: no text is asked about that cannot run, or that is no change."""

    def __init__(self, problem: Problem[str]) -> None:
        self.problem = problem
        self.shaking = True
        """Whether what is not reached goes along with every change."""
        tree = ast.parse(problem.current)
        self._names, self._has_entry = names(tree), entry(tree) is not None
        self._tree: Tree | None = None
        self._facts: tuple[str, observe.Facts] | None = None

    @property
    def tree(self) -> Tree:
        """The current text."""
        if self._tree is None or self._tree.text != self.problem.current:
            self._tree = Tree(self.problem.current)
        return self._tree

    @property
    def facts(self) -> observe.Facts:
        """What a run of the current text showed."""
        if self._facts is None or self._facts[0] != self.problem.current:
            self._facts = self.problem.current, observe.observe(self.problem.current)
        return self._facts[1]

    def ready(self, text: str | None) -> str | None:
        """`text` with what a change takes along; None if it is not worth asking about."""
        text = text and repaired(text, self._names)
        if text is None:
            return None
        if self.shaking:
            text = shaken(text)
        text = spaced(text)
        if self._has_entry and entry(ast.parse(text)) is None:
            return None
        return None if text == self.problem.current else text

    def attempt(self, *texts: str | None) -> bool:
        """Take the first of `texts` that still fails. Returns whether there was one."""
        return self.problem.first(t for t in map(self.ready, texts) if t is not None)

    def split(self, propose: Propose, chunk: int = 0) -> bool:
        """Make as many of the proposed edits as can be made together; whether there was one.

        All at once first, or `chunk` at a time, then halves of what could not be made.
        """
        tree, start = self.tree, self.problem.current

        def build(edits: Sequence[Edit]) -> list[str]:
            text = self.edited(tree, edits)
            return [] if text is None else [text]

        taken(self.problem, propose(tree), build, lambda edit: edit.size, chunk=chunk)
        return self.problem.current != start

    def singles(self, propose: Propose) -> bool:
        """Make one proposed edit after the other, each on the text that the last one left."""
        start, index = self.problem.current, 0
        while True:
            tree, before = self.tree, self.problem.current
            edits = propose(tree)[index:]
            numbers: dict[str, int] = {}
            if not self.problem.first(self._each(tree, edits, numbers)):
                return before != start
            index += numbers[self.problem.current]

    def _each(self, tree: Tree, edits: Sequence[Edit], numbers: dict[str, int]) -> Iterator[str]:
        for number, edit in enumerate(edits):
            text = self.edited(tree, [edit])
            if text is not None:
                numbers.setdefault(text, number)
                yield text

    def edited(self, tree: Tree, edits: Sequence[Edit]) -> str | None:
        """`tree` with edits, as it may be asked about; None if it is not to be."""
        try:
            return self.ready(tree.edited(edits))
        except cst.CSTValidationError:
            return None
