"""Nodes of a syntax tree: those inside a node, their parents and their places in the text."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping

import libcst as cst
import libcst.matchers as m
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

_LINE_END = re.compile(r"\r\n?|\n")
_LEAVES = (cst.SimpleWhitespace, cst.Newline, cst.Comment)
_EMPTY_LINE = cst.EmptyLine(indent=False)


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield `node` and all nodes inside it, in the order of the text."""
    left = [node]
    while left:
        node = left.pop()
        yield node
        left += reversed(children_of(node))


def post_order(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return `node` and all nodes inside it, each after those inside it."""
    found: list[cst.CSTNode] = []
    left = [node]
    while left:
        found.append(left.pop())
        left += children_of(found[-1])
    return found[::-1]


def children_of(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """Return `node.children`, for which libcst visits the node anew each time; nodes are frozen."""
    return () if type(node) in _LEAVES else _visit_children(node)


@functools.lru_cache(maxsize=1 << 17)
def _visit_children(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    return tuple(node.children)


def find_all(node: cst.CSTNode, pattern: m.BaseMatcherNode) -> list[cst.CSTNode]:
    """Return what `m.findall` does, which visits all nodes anew each time."""
    options = pattern.options if isinstance(pattern, m.OneOf) else (pattern,)
    kinds = {type(one).__name__ for one in options}
    nodes = walk(node)
    if all(hasattr(cst, kind) for kind in kinds):
        nodes = (one for one in nodes if type(one).__name__ in kinds)
    return [one for one in nodes if m.matches(one, pattern)]


class Ranges(Mapping[cst.CSTNode, CodeRange]):
    """Ranges of the nodes of a module, in post-order.

    Those of a top-level statement are computed when one of them is first looked up.
    """

    def __init__(self, module: cst.Module) -> None:
        self._module = module
        self._nodes = post_order(module)
        self._known: dict[cst.CSTNode, CodeRange] = {}
        self.parents = {child: node for node in self._nodes for child in children_of(node)}

    def __getitem__(self, node: cst.CSTNode) -> CodeRange:
        if node not in self._known and node in self:
            top = node
            while self.parents.get(top, self._module) is not self._module:
                top = self.parents[top]
            self._known.update(self._ranges_in(top))
        return self._known[node]

    def __contains__(self, node: object) -> bool:
        return node in self.parents or node is self._module

    def __iter__(self) -> Iterator[cst.CSTNode]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def statement_at(self, line: int) -> cst.CSTNode | None:
        """Return the top-level statement at a line, or below if the line is a comment on it."""
        before = [one for one, above in self._lines_above.items() if above < line]
        return before[-1] if before else None

    def _ranges_in(self, node: cst.CSTNode) -> Mapping[cst.CSTNode, CodeRange]:
        """Return the ranges of the nodes in a top-level statement; of all nodes for any other."""
        module = self._module
        if (above := self._lines_above.get(node)) is not None:
            module = module.with_changes(header=[_EMPTY_LINE] * above, body=[node], footer=())
        return _PositionWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)

    def code_of(self, edited: cst.Module) -> str:
        """Return the code of an edited copy of the module; most of its statements are unchanged."""
        if not edited.body:
            return edited.code
        parts = (*edited.header, *edited.body, *edited.footer)
        code = "".join(self._codes.get(one) or edited.code_for_node(one) for one in parts)
        return code if edited.has_trailing_newline else code.removesuffix("\n").removesuffix("\r")

    @functools.cached_property
    def _codes(self) -> dict[cst.CSTNode, str]:
        """The code of each line of the module's header and of each top-level statement."""
        module = self._module
        return {one: module.code_for_node(one) for one in (*module.header, *module.body)}

    @functools.cached_property
    def _lines_above(self) -> dict[cst.CSTNode, int]:
        """The number of lines above each header line, and above each statement's comments."""
        found, lines = {}, 0
        for one, code in self._codes.items():
            found[one] = lines
            lines += len(_LINE_END.findall(code))
        return found


class _PositionWrapper(MetadataWrapper):
    """Wrapper for positions, which libcst takes from the code: a visit is not needed."""

    def visit_batched(self, *_: object, **__: object) -> cst.CSTNode:
        return self.module
