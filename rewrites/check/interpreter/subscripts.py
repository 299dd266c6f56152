"""Evaluation of subscripts: elements of containers, and boolean masks."""

from __future__ import annotations

import ast

from fullgraph.rewrites.check.interpreter.calls import Calls
from fullgraph.rewrites.check.interpreter.operations import is_later_dimension
from fullgraph.rewrites.check.interpreter.values import (
    INT,
    UNKNOWN,
    Data,
    External,
    Layer,
    Literal,
    Mapping,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    data_only,
    join_all,
    sequence_of,
)
from fullgraph.rewrites.check.syntax import dotted


class Subscripts(Calls):
    """Part of the interpreter that evaluates subscripts, such as `x[mask]` and `items[0]`."""

    def eval_Subscript(self, node: ast.Subscript) -> Value:
        return self.evaluate_subscript(node, "read")

    def evaluate_subscript(self, node: ast.Subscript, use: str, stored: Value = ()) -> Value:
        """Return the elements that a subscript selects, and note boolean masks.

        `use` is "read", "store" (an assignment of `stored`) or "augmented" (`x[m] += …`). For
        "store", the container is returned instead.
        """
        base, index = self.evaluate(node.value), self.evaluate(node.slice)
        parts = _index_parts(index)
        found: list[Value] = []
        for one in base:
            found.append(self._element(one, index, parts, node, use, stored))
        return base if use == "store" else join_all(found) or UNKNOWN

    def _element(
        self,
        one: object,
        index: Value,
        parts: list[Value],
        node: ast.Subscript,
        use: str,
        stored: Value,
    ) -> Value:
        match one:
            case Tensor():
                return self._tensor_element(one, parts, node, use, stored)
            case Sequence():
                if any(isinstance(o, Tensor) for o in index):
                    self.note_tensor(node, index, "scalar.list_index")
                match index:
                    case (Literal(value=int() as number),) if one.items is not None:
                        if -len(one.items) <= number < len(one.items):
                            return one.items[number]
                    case (Plain(kind="slice"),):
                        return sequence_of(one.element, one.kind)
                return one.element or UNKNOWN
            case Mapping():
                if any(isinstance(o, Tensor) for o in index):
                    self.note_tensor(node, index, "scalar.dict_index")
                match index:
                    case (Literal(value=key),):
                        known = dict(one.items).get(key)
                        return known if known is not None else one.element or UNKNOWN
                return join_all((*(v for _, v in one.items), one.element)) or UNKNOWN
            case Layer() if one.element:
                self.note_branch(node, data_only(index), "branch.module_index")
                return one.element
            case Plain(kind="size"):
                return (one,) if index == (Plain("slice"),) else INT
            case External(name="numpy.mgrid" | "numpy.ogrid" as name):
                self.note(node, f"call:{name}", True, self.frame_statement())
                return (Tensor(array=True),)
            case Data(kind="size") if is_later_dimension(index):
                return INT
            case Data():
                return (Data(one.proved, "int" if one.kind == "size" else "", one.random),)
            case Unknown():
                if any(isinstance(o, Tensor) and o.dtype == "bool" for p in parts for o in p):
                    return self._tensor_element(Tensor(), parts, node, use, stored)
                if len(parts) > 1 and any(p == (Plain("slice"),) for p in parts):
                    return (Tensor(),)
        return UNKNOWN

    def _tensor_element(
        self, one: Tensor, parts: list[Value], node: ast.Subscript, use: str, stored: Value
    ) -> Value:
        masks = [p for p in parts if any(isinstance(o, Tensor) and o.dtype == "bool" for o in p)]
        maybe = [p for p in parts if any(isinstance(o, Tensor) and o.dtype == "" for o in p)]
        if parts and all(isinstance(o, Literal) and o.kind == "str" for o in parts[0]):
            return UNKNOWN  # a dict after all
        dynamic = any(isinstance(o, Tensor) and o.dynamic for p in parts for o in p)
        if masks:
            if use == "read":
                construct = "mask.read"
            elif use == "augmented":
                construct = "mask.augmented"
            else:
                tensor = any(isinstance(o, Tensor) for o in stored)
                selected = any(isinstance(o, Tensor) and o.dynamic for o in stored)
                kind = "selection" if selected else "tensor" if tensor else "number"
                construct = f"mask.store_{kind}"
            # A comparison that is used as an index is one of tensors, and indexes a tensor.
            self.note(node, construct, True, self.frame_statement())
        if maybe and not masks and use == "read" and _looks_like_mask(node.slice):
            self.note(node, "mask.read", False, self.frame_statement())
        proved = one.proved and all(o.proved for p in parts for o in p if isinstance(o, Tensor))
        return (Tensor(proved, one.dtype, one.dynamic or dynamic or bool(masks), one.array),)


def _index_parts(index: Value) -> list[Value]:
    """Return the elements of an index that is a tuple; else the index alone."""
    match index:
        case (Sequence(kind="tuple", items=tuple() as items),):
            return list(items)
    return [index]


def _looks_like_mask(node: ast.expr) -> bool:
    """Return whether the name of an index is that of a mask, such as "keep" or "pad_mask"."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    names = [dotted(one).rpartition(".")[2].lower() for one in parts]
    return any(n in ("mask", "valid", "keep") or n.endswith("_mask") for n in names)
