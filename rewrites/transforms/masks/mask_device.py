"""The device of a mask: one on the CPU may index a CUDA tensor, but `torch.where` takes none."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.rewrites.analysis import MAKERS, Site, infer, only_value, walk
from fullgraph.rewrites.source import Replacement, build_expression, dotted_name, parenthesize
from fullgraph.rewrites.transforms.masks.flow import Flow
from fullgraph.rewrites.transforms.masks.reads import Read
from fullgraph.rewrites.transforms.masks.sinks import StoreSink


def mask_on_device(flow: Flow) -> tuple[cst.BaseExpression, dict[cst.CSTNode, Replacement]]:
    """Return the code of a flow's mask on the device of what it selects from.

    `torch.rand(n) < p` gets `.to(x.device)`: where the mask is defined, by the edits that are the
    second result, if it has a name that only the flow uses; else in the code.
    """
    mask = flow.first.mask.with_changes(lpar=(), rpar=())
    bases = [one.base for one in _selections(flow)]
    if not _is_on_default_device(flow.site, flow.first.mask) or any(
        not dotted_name(one) or _is_on_default_device(flow.site, one) for one in bases
    ):
        return mask, {}
    value = only_value(flow.site.document, flow.first.mask)
    if value is not None and _uses_only_here(flow):
        base = next((one for one in bases if _is_bound_before(flow, one, value)), None)
        if base is not None:
            return mask, {value: _moved(value, base)}
    return _moved(mask, bases[0]), {}


def _selections(flow: Flow) -> Iterator[Read]:
    """Yield all masked reads and assignments of a flow."""
    yield from flow.reads.values()
    for sinks in flow.trees.values():
        yield from (one.target for one in sinks if isinstance(one, StoreSink))


def _moved(mask: cst.BaseExpression, base: cst.BaseExpression) -> cst.BaseExpression:
    """Return the code that moves a mask to the device of a tensor."""
    inner = mask if isinstance(mask, cst.Name | cst.Call) else parenthesize(mask)
    return build_expression("{mask}.to({base}.device)", mask=inner, base=base)


def _is_on_default_device(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether an expression is a new tensor without `device=`, or computed from one."""
    match node:
        case cst.Name():
            value = only_value(site.document, node)
            return value is not None and _is_on_default_device(site, value)
        case cst.UnaryOperation():
            return _is_on_default_device(site, node.expression)
        case cst.Subscript():
            return _is_on_default_device(site, node.value)
        case cst.Comparison(comparisons=[one]):
            return _is_of_default_device(site, node.left, one.comparator)
        case cst.BinaryOperation():
            return _is_of_default_device(site, node.left, node.right)
        case cst.Call():
            names = {arg.keyword.value for arg in node.args if arg.keyword is not None}
            owner, _, name = site.callee_name(node).rpartition(".")
            if owner == "torch" and name in MAKERS - {"as_tensor"}:
                tensors = [arg for arg in node.args if _is_other_tensor(site, arg.value)]
                return "device" not in names and not tensors
            moves = name in ("to", "cuda", "type_as")
            return (
                isinstance(node.func, cst.Attribute)
                and not moves
                and _is_of_default_device(site, node.func.value, *(arg.value for arg in node.args))
            )
    return False


def _is_of_default_device(site: Site, *operands: cst.BaseExpression) -> bool:
    """Return whether one of several operands is on the default device, and no other tensor."""
    new = [one for one in operands if _is_on_default_device(site, one)]
    return bool(new) and not any(_is_other_tensor(site, o) for o in operands if o not in new)


def _is_other_tensor(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether an expression is known to be a tensor with dimensions."""
    seen = infer(site, node)
    return seen is not None and seen.is_tensor and seen.dims != {0}


def _uses_only_here(flow: Flow) -> bool:
    """Return whether all uses of the mask's name are masks of the flow."""
    known, mask = flow.definitions, flow.first.mask
    if known is None or not isinstance(mask, cst.Name):
        return False
    inside = {node for one in _selections(flow) for node in walk(one.mask)}
    bindings = known.reaching.get(mask, frozenset())
    return all(use in inside for binding in bindings for use in known.uses(binding))


def _is_bound_before(flow: Flow, base: cst.BaseExpression, value: cst.BaseExpression) -> bool:
    """Return whether a variable is bound where `value` is computed, to what it is later."""
    if flow.definitions is None or not isinstance(base, cst.Name):
        return False
    lines = (flow.site.document.statement(node) for node in (value, base))
    found = {flow.definitions.before.get(one, {}).get(base.value) for one in lines}
    return len(found) == 1 and None not in found
