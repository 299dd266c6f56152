"""`with torch.device(d):` is not traced; `device=` of the functions that make tensors is.

Before:

    with torch.device(self.device):
        steps = torch.arange(n)  # one for each
        noise = torch.randn(n, 3)

After:

    steps = torch.arange(n, device=self.device)  # one for each
    noise = torch.randn(n, 3, device=self.device)

Unsafe where the caller gives the device and devices are read afterwards: compiled, a tensor that is
given "cpu:0" says so, and in eager it says "cpu".

Refuses: blocks that call other functions or make modules, which may make tensors too, or that
assign the device; `as`; `device=` of something that may be None; and devices that would be computed
more than once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import (
    MAKERS,
    PURE_CALLS,
    Site,
    names_bound,
    parameter_of,
    torch_name,
    walk,
)
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import Replacement, dotted_name, inline_block, replace_nodes


def rewrite(site: Site) -> Rewrite | Refusal | None:
    block = next(
        (
            one
            for one in (site.node, *site.document.ancestors(site.node))
            if isinstance(one, cst.With)
        ),
        None,
    )
    if block is None or not any(_is_device(site, item.item) for item in block.items):
        return None
    if len(block.items) > 1 or block.items[0].asname is not None:
        return Refusal("the block enters more than the device")
    context = block.items[0].item
    assert isinstance(context, cst.Call)
    device: cst.BaseExpression = context
    if len(context.args) == 1 and context.args[0].keyword is None:
        device = context.args[0].value
        if not isinstance(device, cst.Name | cst.Attribute | cst.SimpleString):
            return Refusal("the device would be computed more than once")
        if dotted_name(device) in names_bound(block.body):
            return Refusal("the device is another one inside the block")
    edits: dict[cst.CSTNode, Replacement] = {}
    for call in (one for one in walk(block.body) if isinstance(one, cst.Call)):
        if reason := _unknown_reason(site, call):
            return Refusal(reason)
        if not _creates_tensor(site, call):
            continue
        given = next((arg for arg in call.args if m.matches(arg, _DEVICE)), None)
        if given is None:
            args = [*call.args, cst.Arg(device, keyword=cst.Name("device"), equal=_EQUAL)]
            edits[call] = _with_arguments(call, args)
        elif m.matches(given.value, m.Name("None")):
            edits[given] = given.with_changes(value=device)
        elif not m.matches(given.value, m.SimpleString() | m.Attribute(attr=m.Name("device"))):
            return Refusal(f"where `{site.document.code(given.value)}` is None, the block decides")
    if not isinstance(block.body, cst.IndentedBlock):
        return Refusal("the block is on one line")
    return Rewrite(
        {block: inline_block(block, replace_nodes(block.body, edits).body)},
        "`device=` says at each place what the block said for all.",
        assumes=tuple(_assumptions(site, block, device)),
    )


def _assumptions(site: Site, block: cst.With, device: cst.BaseExpression) -> Iterator[str]:
    """Yield what must hold of a device that the caller gives, where devices are read afterwards.

    A tensor on "cpu:0" is on "cpu" in eager, and on "cpu:0" where Dynamo traces it.
    """
    function = site.document.function(block)
    inside = {*walk(block)}
    reads = (
        one
        for one in (walk(function) if function is not None else ())
        if m.matches(one, m.Attribute(attr=m.Name("device"))) and one not in inside
        if not one.deep_equals(device)
    )
    of_tensor = isinstance(device, cst.Attribute) and site.is_tensor(device.value)
    is_given = parameter_of(site.document, device) is not None and not of_tensor
    if is_given and next(reads, None) is not None:
        yield f'`{site.document.code(device)}` is never "cpu:0"'


_DEVICE = m.Arg(keyword=m.Name("device"))
_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def _with_arguments(call: cst.Call, args: Sequence[cst.Arg]) -> cst.BaseExpression:
    """Return `call` with `args` in place of its arguments, and a comma after each but the last."""
    spelled = [
        arg.with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
        if isinstance(arg.comma, cst.MaybeSentinel) and place < len(args) - 1
        else arg
        for place, arg in enumerate(args)
    ]
    return call.with_changes(args=spelled)


def _is_device(site: Site, node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and site.callee_name(node) == "torch.device"


def _creates_tensor(site: Site, call: cst.Call) -> bool:
    return site.callee_name(call).startswith("torch.") and torch_name(site, call) in MAKERS


def _unknown_reason(site: Site, call: cst.Call) -> str:
    """Return the reason why `call` may create a tensor that cannot be given `device=`.

    "" if the call creates no tensors, or `device=` can be added to its arguments.
    """
    called = site.callee_name(call)
    if _creates_tensor(site, call) and any(arg.star for arg in call.args):
        return "its arguments are not spelled out"
    if torch_name(site, call) or called in PURE_CALLS:
        return ""
    return f"`{site.document.code(call.func)}` may make tensors, too"


RULE = Rule("FG811", "give-device", frozenset({Category.CONTEXT_MANAGER.value}), rewrite)
