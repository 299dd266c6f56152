"""Uses of a loop variable that holds an index, so that a Python number can take its place."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from fullgraph.rewrites.analysis import Definitions, Site, names_bound_before
from fullgraph.rewrites.source import Replacement, build_expression, dotted_name

_LISTS = ("torch.nn.modules.container.ModuleList", "torch.nn.modules.container.ParameterList")


@dataclass
class IndexUses:
    """Edits of all uses of a loop variable that holds an index.

    After the edits the index can be a Python number instead of a tensor.
    """

    site: Site
    known: Definitions
    edits: dict[cst.CSTNode, Replacement] = field(default_factory=dict)
    modules: cst.BaseExpression | None = None
    """The list of modules or parameters that the index indexes; None if there is none."""
    table: cst.BaseExpression | None = None
    """A parameter or buffer of the module that has a row for each index; None if there is none."""
    rows: cst.Name | None = None
    """A variable with a row for each index, as `means[k]` needs; None if there is none."""
    selects: bool = False
    """Whether the index is compared or indexes a tensor, so that an iteration may do nothing."""
    elsewhere: str = ""
    """The code of a use that needs the index as a tensor; "" if there is none."""

    def rows_before(self, loop: cst.For) -> cst.Name | None:
        """Return the variable with a row for each index, if it has a value before the loop."""
        known = names_bound_before(self.site.document, loop)
        return self.rows if self.rows is not None and self.rows.value in known else None

    def follow(self, name: cst.Name) -> bool:
        """Edit all uses of a variable; return whether each can use a Python number instead."""
        uses = self.known.uses(name)
        seen = [self.site.observed(use) for use in uses]  # None inside a formatted string
        single = any(one is not None and one.dims == {1} for one in seen)
        return all(self._follow_use(use, name.value, single) for use in uses)

    def _follow_use(self, use: cst.CSTNode, name: str, single: bool) -> bool:
        """Edit one use of a variable; `single` says whether it is a tensor with one dimension."""
        document = self.site.document
        node, parent = use, document.parent(use)
        if isinstance(parent, cst.Subscript) and parent.value is use:
            if not single or not document.code(parent).endswith("[0]"):
                return self._stop(parent)
            node, single = parent, False
        elif isinstance(parent, cst.Attribute) and parent.attr.value in ("item", "squeeze"):
            node, single = document.parent(parent), False
        parent = document.parent(node)
        if node is not use:
            self.edits[node] = cst.Name(name)
        match parent:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as again)]):
                if again.value == name:
                    self.edits.pop(node, None)
                    self.edits[document.statement(parent)] = cst.RemoveFromParent()
                return self.follow(again)
            case cst.Index():
                return self._follow_subscript(use, node, single)
            case cst.ComparisonTarget() | cst.Comparison():
                self.selects = True
                return True
            case cst.Arg() if self.site.callee_name(document.parent(parent)) == "int":
                return True
            case cst.FormattedStringExpression(equal=None, conversion=None, format_spec=None):
                return not single or self._stop(parent)  # a 0-d tensor is formatted as its number
        return self._stop(parent)

    def _follow_subscript(self, use: cst.CSTNode, node: cst.CSTNode, single: bool) -> bool:
        """Edit the subscript that `node`, the index, is in; return whether a number can be used.

        `single` says whether the index is a tensor with one dimension.
        """
        document = self.site.document
        element = document.parent(document.parent(node))
        subscript = document.parent(element)
        if not isinstance(subscript, cst.Subscript):
            return self._stop(element)
        seen = self.site.observed(subscript.value)
        if seen is not None and seen.types and set(seen.types) <= set(_LISTS):
            self.modules = subscript.value
            return True
        if seen is None or not seen.is_tensor:
            return self._stop(subscript)
        if dotted_name(subscript.value).startswith("self.") and len(subscript.slice) == 1:
            self.table = subscript.value
            return True
        self.selects = True
        if isinstance(subscript.value, cst.Name) and len(subscript.slice) == 1:
            self.rows = subscript.value
        if single:
            name = cst.ensure_type(use, cst.Name)
            squeezed = document.parents.get(document.parent(subscript))
            if isinstance(squeezed, cst.Call) and document.code(squeezed).endswith(".squeeze(0)"):
                self.edits[squeezed] = subscript
            else:
                self.edits[document.parent(node)] = cst.Slice(
                    name, build_expression("{name} + 1", name=name.value)
                )
        return True

    def _stop(self, node: cst.CSTNode) -> bool:
        self.elsewhere = self.site.document.code(node).partition("\n")[0]
        return False
