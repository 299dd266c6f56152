"""`copy.deepcopy(t)` and `copy.copy(d)` run code that TorchDynamo does not enter.

Before:

    start = copy.deepcopy(x)
    levels = copy.deepcopy(features)
    state = copy.deepcopy(self.state)
    options = copy.copy(self.options)

After:

    start = x.clone()
    levels = [each.clone() for each in features]
    state = torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, self.state)
    options = dict(self.options)

Assumes nothing where what is copied was seen to be a dense tensor without gradient, or a plain
`dict` or `list` (`copy.copy` only). Unsafe for lists, tuples and dicts with tensors in them, where
the last form is for those that hold containers or numbers too.

Refuses: tensors that ask for a gradient (a deep copy is a new leaf, a clone is not), other
objects, and a `memo` argument.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression

_CLONES = {
    "list": "[each.clone() for each in {thing}]",
    "tuple": "tuple([each.clone() for each in {thing}])",
    "dict": "{{key: each.clone() for key, each in {thing}.items()}}",
}
"""Templates of deep copies of containers of tensors, by the type of the container."""
_TREE = "{torch}.utils._pytree.tree_map_only({torch}.Tensor, {torch}.clone, {{thing}})"
_CONSTANTS = {"int", "float", "bool", "str", "NoneType"}


def rewrite(site: Site) -> Rewrite | Refusal | None:
    call = site.node
    if not isinstance(call, cst.Call) or site.callee_name(call) not in (
        "copy.deepcopy",
        "copy.copy",
    ):
        return None
    if len(call.args) != 1 or call.args[0].star:
        return Refusal("it takes more than what is copied")
    thing = call.args[0].value
    seen, shallow = site.observed(thing), site.callee_name(call) == "copy.copy"
    if seen is None:
        return Refusal("what is copied is not known")
    if seen.is_tensor:
        if seen.requires_grad or any(t.layout != "strided" for t in seen.tensors):
            return Refusal("a clone of this tensor is no leaf of autograd, and a deep copy is")
        if shallow:
            same = build_expression("{thing}.detach()", thing=thing)
            return Rewrite({call: same}, "`detach` makes another tensor with the same memory.")
        cloned = build_expression("{thing}.clone()", thing=thing)
        return Rewrite({call: cloned}, "`clone` copies a tensor.")
    kind = seen.types[0] if len(seen.types) == 1 else ""
    held = set(seen.items)
    if kind in ("dict", "list") and (shallow or (held and held <= _CONSTANTS)):
        copied = build_expression(f"{kind}({{thing}})", thing=thing)
        return Rewrite({call: copied}, f"`{kind}` makes the same copy, and is traced.")
    if not shallow and kind in _CLONES and held and held <= {"torch.Tensor", *_CONSTANTS, *_CLONES}:
        text, assumes = _CLONES[kind], ["no tensor in it asks for a gradient, or is in it twice"]
        if held != {"torch.Tensor"}:
            text = _TREE.format(torch=site.document.imported_name("torch") or "torch")
            assumes.append("containers, tensors and constants are all that it holds")
        return Rewrite(
            {call: build_expression(text, thing=thing)},
            "`clone` copies each tensor.",
            Applicability.UNSAFE,
            tuple(assumes),
            imports=("torch",) if "torch" in text else (),
        )
    return Refusal(
        "only tensors, containers of them, and shallow copies of dicts and lists have a traced form"
    )


RULE = Rule(
    "FG801",
    "copy-as-tensor",
    frozenset({Category.COPY.value, Category.SKIPPED.value, Category.CALL.value}),
    rewrite,
)
