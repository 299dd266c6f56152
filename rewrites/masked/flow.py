"""Where the elements that a mask selects go, from the reads to the places where their number no
longer shows: reductions, losses, counts, assignments through the same mask."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from fullgraph.rewrites.facts.definitions import Definitions, definitions
from fullgraph.rewrites.masked import ops
from fullgraph.rewrites.masked.continuation import continuation
from fullgraph.rewrites.masked.goals import (
    Bound,
    Counted,
    End,
    Escape,
    Harmless,
    Reduced,
    Stored,
)
from fullgraph.rewrites.masked.losses import Loss, loss
from fullgraph.rewrites.masked.ops import Operation, operation
from fullgraph.rewrites.masked.reads import Read, read, repeatable, same
from fullgraph.rewrites.site import Site


@dataclass(eq=False)
class Flow:
    """All that is selected by one mask and meets."""

    site: Site
    first: Read
    definitions: Definitions | None
    reads: dict[cst.CSTNode, Read] = field(default_factory=dict)
    bound: dict[cst.CSTNode, cst.BaseExpression] = field(default_factory=dict)
    """For each name that holds selected elements, where it is bound, what it is bound to."""
    names: dict[cst.Name, None] = field(default_factory=dict)
    """The uses of these names."""
    trees: dict[cst.BaseExpression, list[End]] = field(default_factory=dict)
    """The outermost expressions that are selected elements, and what becomes of them."""
    unsure: bool = False
    """Whether something was not seen in a run."""
    continuation: tuple[cst.SimpleStatementLine, ...] = ()
    """What follows an `if` that ends with the first read, as far as the `return`."""
    mixed: bool = False
    """Whether the continuation takes what is selected or, without the `if`, what is not."""
    _waiting: list[cst.BaseExpression] = field(default_factory=list)

    # What is selected.

    def is_selected(self, node: cst.CSTNode) -> bool:
        """Whether an expression is made of selected elements; what it is made of is followed."""
        if node in self.reads or node in self.names:
            return True
        found = read(self.site, node)
        if found is not None:
            if not same(found.mask, self.first.mask):
                raise Escape(f"`{self._code(node)}` is selected by another mask")
            if not repeatable(self.site, found.mask):
                raise Escape("the mask is not the same when it is worked out again")
            self._add(found)
            return True
        match node:
            case cst.Name():
                return self._is_bound(node)
            case cst.BinaryOperation():
                return any([self.is_selected(node.left), self.is_selected(node.right)])
            case cst.UnaryOperation():
                return self.is_selected(node.expression)
            case cst.Comparison(comparisons=[one]):
                return any([self.is_selected(node.left), self.is_selected(one.comparator)])
            case cst.Call():
                made = operation(self.site, node)
                if made is None or made.name not in ops.ELEMENTWISE | ops.FLATTENING:
                    return False
                selected = [self.is_selected(operand) for operand in made.operands]
                return any(selected)
        return False

    def is_number(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a Python number."""
        seen = self.site.seen(node)
        bare = cst.Integer | cst.Float | cst.UnaryOperation
        if isinstance(node, bare) and not isinstance(getattr(node, "operator", None), cst.Not):
            inner = node.expression if isinstance(node, cst.UnaryOperation) else node
            if isinstance(inner, cst.Integer | cst.Float):
                return True
        return seen is not None and seen.is_number

    def dims(self, node: cst.BaseExpression) -> int:
        """How many dimensions selected elements have beside the one of their number."""
        seen = self.site.seen(node)
        if seen is None or len(seen.dims) != 1:
            return self.first.axis + self.first.rest if self.first.known else 0
        return next(iter(seen.dims)) - 1

    # Where it goes.

    def follow(self) -> None:
        """Find all reads, names and ends. Raises Escape."""
        self._add(self.first)
        while self._waiting:
            leaf = self._waiting.pop()
            root, end = self._climb(leaf)
            ends = self.trees.setdefault(root, [])
            ends += [end] if not any(_same_end(end, one) for one in ends) else []
            if isinstance(end, Bound):
                self._bind(end, root)
        for name in self.names:
            if self.definitions is None or not self.definitions.reaching[name] <= set(self.bound):
                if self.site.document.statement(name) not in self.continuation:
                    raise Escape(f"`{name.value}` is not always what the mask selects")
                self.mixed = True

    def _add(self, found: Read) -> None:
        if found.node not in self.reads:
            self.reads[found.node] = found
            self.unsure |= not found.known
            self._waiting.append(found.node)

    def _bind(self, end: Bound, root: cst.BaseExpression) -> None:
        if end.name in self.bound:
            return
        self.bound[end.name] = root
        if self.definitions is None:
            raise Escape(f"`{end.name.value}` may be used elsewhere")
        for use in self.definitions.uses(end.name):
            if self.site.document.function(use) is not self.definitions.function:
                raise Escape(f"`{use.value}` is used in a function inside this one")
            if use not in self.names:
                self.names[use] = None
                self._waiting.append(use)

    def _is_bound(self, use: cst.Name) -> bool:
        if self.definitions is None:
            return False
        found = self.definitions.reaching.get(use, frozenset())
        selected = [self._binds_selected(one) for one in found]
        if not any(selected):
            return False
        if not all(selected) and self.site.document.statement(use) not in self.continuation:
            raise Escape(f"`{use.value}` is not always what the mask selects")
        self.names[use] = None
        self._waiting.append(use)
        return True

    def _binds_selected(self, binding: cst.CSTNode) -> bool:
        if binding in self.bound:
            return True
        parent = self.site.document.parents.get(binding)
        if not isinstance(parent, cst.AssignTarget):
            return False
        assign = self.site.document.parent(parent)
        return isinstance(assign, cst.Assign) and self.is_selected(assign.value)

    def _climb(self, node: cst.BaseExpression) -> tuple[cst.BaseExpression, End]:
        """The outermost expression around `node` that is made of selected elements, and its end."""
        parent = self.site.document.parent(node)
        match parent:
            case cst.BinaryOperation():
                if isinstance(parent.operator, cst.MatrixMultiply):
                    raise self._escape(parent)
                self._beside(parent.right if parent.left is node else parent.left)
                return self._climb(parent)
            case cst.UnaryOperation() if not isinstance(parent.operator, cst.Not):
                return self._climb(parent)
            case cst.Comparison(comparisons=[one]):
                self._beside(one.comparator)
                return self._climb(parent)
            case cst.ComparisonTarget():
                outer = self.site.document.parent(parent)
                assert isinstance(outer, cst.Comparison)
                if len(outer.comparisons) > 1 or isinstance(parent.operator, cst.In | cst.Is):
                    raise self._escape(outer)
                self._beside(outer.left)
                return self._climb(outer)
            case cst.Attribute():
                return self._attribute(node, parent)
            case cst.Arg():
                call = self.site.document.parent(parent)
                if isinstance(call, cst.Call):
                    return self._call(node, call)
            case cst.AssignTarget() | cst.Assign() | cst.AnnAssign() | cst.AugAssign():
                return node, self._assigned(node, parent)
            case cst.Subscript() if parent.value is node and self._is_row_index(parent):
                return self._climb(parent)
        raise self._escape(parent, node)

    def _attribute(
        self, node: cst.BaseExpression, parent: cst.Attribute
    ) -> tuple[cst.BaseExpression, End]:
        outer = self.site.document.parent(parent)
        name = parent.attr.value
        if isinstance(outer, cst.Call) and outer.func is parent:
            return self._call(node, outer)
        if name in ("dtype", "device", "is_cuda", "requires_grad", "ndim"):
            return node, Harmless()
        if name == "shape" and isinstance(outer, cst.Subscript):
            match outer.slice:
                case [cst.SubscriptElement(slice=cst.Index(value=cst.Integer(value="0")))]:
                    return node, self._counted(outer)
        raise self._escape(outer if isinstance(outer, cst.BaseExpression) else parent)

    def _call(self, node: cst.BaseExpression, call: cst.Call) -> tuple[cst.BaseExpression, End]:
        found = loss(self.site, call)
        if found is not None:
            pair = [self.is_selected(one) for one in (found.input, found.target)]
            if not all(pair):
                raise Escape(f"only one side of `{self._code(call.func)}` is selected by the mask")
            return node, found
        if self.site.calls(call) == "len":
            return node, self._counted(call)
        made = operation(self.site, call)
        if made is None:
            raise self._escape(call)
        if made.name in ops.ELEMENTWISE:
            for operand in made.operands:
                if operand is not node and not _is_option(made, operand):
                    self._beside(operand)
            return self._climb(call)
        if made.name == "cosine_similarity":
            pair = [self.is_selected(one) for one in made.operands[:2]]
            if not all(pair):
                raise self._escape(call)
        elif node is not made.tensor:
            raise self._escape(call)
        if made.name == "linear" and self.dims(node) > self.first.axis == 0:
            return self._climb(call)
        if made.name in ops.FLATTENING and self._is_flat(made):
            return self._climb(call)
        if made.name in ("numel", "nelement") and self.dims(node) == 0:
            return node, self._counted(call)
        if made.name == "size" and ops.integer(made.argument("dim", 0)) == 0:
            return node, self._counted(call)
        if made.name in ops.NEUTRAL or made.name in ops.ROWWISE:
            if self._is_rowwise(made):
                return self._climb(call)
            if made.name in ops.NEUTRAL:
                return node, Reduced(made)
        raise self._escape(call)

    def _assigned(self, node: cst.BaseExpression, parent: cst.CSTNode) -> End:
        document = self.site.document
        statement = document.parent(parent) if isinstance(parent, cst.AssignTarget) else parent
        if isinstance(statement, cst.AugAssign) and statement.target is node:
            self._beside(statement.value)
            if isinstance(node, cst.Name):
                return Bound(node, augmented=True)
            return Stored(statement, self.reads[node])
        if isinstance(parent, cst.AssignTarget):
            raise Escape(f"`{self._code(node)}` is assigned to")
        match statement:
            case cst.Assign(targets=[one]):
                target = one.target
            case cst.AnnAssign() | cst.AugAssign():
                target = statement.target
            case _:
                raise self._escape(statement)
        if isinstance(target, cst.Name):
            augmented = isinstance(statement, cst.AugAssign)
            if not augmented or self.is_selected(target):
                return Bound(target, augmented)
        place = read(self.site, target)
        if place is not None and isinstance(statement, cst.Assign | cst.AugAssign):
            if not same(place.mask, self.first.mask):
                raise Escape(f"`{self._code(target)}` is selected by another mask")
            self.unsure |= not place.known
            return Stored(statement, place)
        raise Escape(f"`{self._code(target)}` keeps the selected elements themselves")

    # What stands beside it.

    def _beside(self, other: cst.BaseExpression) -> None:
        """Raises Escape if an operand does not go with elements at their full shape."""
        if self.is_selected(other) or self.is_number(other):
            return
        seen = self.site.seen(other)
        if seen is None:
            if self.first.known and not isinstance(other, cst.Name | cst.Attribute):
                raise Escape(f"it is not known what `{self._code(other)}` is")
            self.unsure = True
            return
        width = self.first.rest if self.first.axis == 0 else 0
        wide = [shape for shape in seen.shapes if any(n != 1 for n in shape[: len(shape) - width])]
        if not seen.is_tensor or wide:
            raise Escape(
                f"`{self._code(other)}` goes with the selected elements only, one for each"
            )

    def _is_flat(self, made: Operation) -> bool:
        """Whether a call makes selected elements what they are already: one dimension."""
        if self.dims(made.tensor) != 0 or not self.first.known:
            return False
        return made.name in ("flatten", "ravel") or [
            ops.integer(option.value) for option in made.options
        ] == [-1]

    def _is_rowwise(self, made: Operation) -> bool:
        """Whether a call stays within the dimensions behind the mask's."""
        place = 1 if made.name in ("norm", "normalize", "cosine_similarity") else 0
        place += made.name == "cosine_similarity" and made.method is False
        dims = ops.integers(made.argument("dim", place) or made.argument("axis", 99))
        if dims is None:
            return False
        count, rest = self.dims(made.tensor) + 1, self.dims(made.tensor) - self.first.axis
        absolute = [dim % count for dim in dims]
        inner = all(dim > self.first.axis for dim in absolute) and rest > 0
        if inner and self.first.dims > 1 and any(dim >= 0 for dim in dims):
            raise Escape("a dimension would have another number at full shape: write it negative")
        return inner

    def _is_row_index(self, node: cst.Subscript) -> bool:
        """`x[m][:, 0]` and `x[m][..., 0]`."""
        if self.first.axis != 0 or self.dims(node.value) == 0:
            return False
        head = node.slice[0].slice
        whole = isinstance(head, cst.Slice) and head.lower is head.upper is head.step is None
        dots = isinstance(head, cst.Index) and isinstance(head.value, cst.Ellipsis)
        plain = (cst.Slice, cst.Integer, cst.Ellipsis, cst.UnaryOperation)
        bare = [s.slice.value if isinstance(s.slice, cst.Index) else s.slice for s in node.slice]
        if not all(isinstance(one, plain) for one in bare):
            return False
        return len(node.slice) > 1 and ((whole and self.first.dims == 1) or dots)

    def _counted(self, node: cst.BaseExpression) -> Counted:
        """A count, if what uses it takes a tensor as well as a number."""
        parent = self.site.document.parent(node)
        if isinstance(parent, cst.BinaryOperation):
            other = parent.right if parent.left is node else parent.left
            if self.site.is_tensor(other):
                return Counted(node)
        raise Escape(f"`{self._code(node)}` is needed as a Python number")

    def _escape(self, node: cst.CSTNode, selected: cst.BaseExpression | None = None) -> Escape:
        code = self._code(selected or node).partition("\n")[0]
        match node:
            case cst.Return():
                what = f"`{code}` is returned"
            case cst.BaseElement() | cst.Index() | cst.IfExp() | cst.BooleanOperation():
                what = f"`{code}` is used as it is"
            case _:
                code = self._code(node).partition("\n")[0]
                what = f"`{code}` takes all that is selected"
        return Escape(f"{what}, and how many elements that is depends on the data")

    def _code(self, node: cst.CSTNode) -> str:
        return self.site.document.code(node)


def flow(site: Site) -> Flow | Escape | None:
    """Where the elements go that the site's node selects; why they cannot be followed; None if it
    is no read through a mask."""
    first = read(site, site.node)
    if first is None:
        return None
    known = definitions(site.document, site.node)
    found = Flow(site, first, known, continuation=continuation(site, first.node))
    try:
        found.follow()
    except Escape as reason:
        return reason
    return found


def _is_option(made: Operation, operand: cst.BaseExpression) -> bool:
    """Whether an operand is no tensor: a dtype, a device, a flag."""
    if made.name in ("to", "type", "type_as", "clone", "contiguous"):
        return True
    for arg in made.options:
        if arg.value is operand:
            known = arg.keyword is not None and arg.keyword.value not in ("other", "exponent")
            return known or isinstance(operand, cst.SimpleString)
    return False


def _same_end(one: End, other: End) -> bool:
    if isinstance(one, Loss) and isinstance(other, Loss):
        return one.call is other.call
    return False
