"""`dist.broadcast` and `dist.reduce` are not traced; functional ones and `all_reduce` are.

Before:

    dist.broadcast(self.queue, src=0)
    dist.reduce(total, dst=0)
    z = torch.cat(torch.distributed.nn.all_gather(z))

After:

    self.queue.copy_(funcol.broadcast(self.queue, 0, dist.group.WORLD))
    dist.all_reduce(total)
    z = funcol.all_gather_tensor_autograd(z, 0, dist.group.WORLD)

with `import torch.distributed._functional_collectives as funcol`. Unsafe for `reduce`: after
`all_reduce` the other ranks hold the sum, too.

Refuses: tensors that ask for a gradient (autograd does not see a broadcast), groups other than the
default one, calls with `async_op=`, and tensors that would be computed twice.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site, walk
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression

_FUNCTIONAL = "torch.distributed._functional_collectives"
_IMPORTS = (f"{_FUNCTIONAL} as funcol", "torch.distributed as dist")
_GATHER = ("torch.distributed.nn.all_gather", "torch.distributed.nn.functional.all_gather")
_SIGNATURES = {
    "broadcast": ("tensor", "src", "group", "async_op", "group_src"),
    "reduce": ("tensor", "dst", "op", "group", "async_op", "group_dst"),
    "all_gather": ("tensor", "group"),
}


def rewrite(site: Site) -> Rewrite | Refusal | None:
    for call in walk(site.node):
        qualified = site.callee_name(call)
        name = qualified.rpartition(".")[2]
        known = name in ("broadcast", "reduce") and qualified.startswith("torch.distributed.")
        if isinstance(call, cst.Call) and (known or qualified in _GATHER):
            return _rewrite_functional(site, call, name)
    return None


def _rewrite_functional(site: Site, call: cst.Call, name: str) -> Rewrite | Refusal:
    """Return a rewrite that makes a collective call traceable by Dynamo, or a refusal.

    For `dist.reduce(x, dst)` it is `dist.all_reduce(x)`. `name` is "broadcast", "reduce" or
    "all_gather".
    """
    given = _arguments_by_name(call, _SIGNATURES[name])
    if given is None:
        return Refusal("its arguments are not spelled out")
    if "async_op" in given or not _is_default(site, given.get("group")):
        return Refusal("it is asynchronous, or among some processes only")
    tensor = given.get("tensor")
    seen = site.observed(tensor) if tensor is not None else None
    if tensor is None or seen is None or not seen.is_tensor:
        return Refusal("what it sends is not known to be a tensor")
    if name == "all_gather":
        return _rewrite_gather(site, call, tensor)
    if seen.requires_grad:
        return Refusal("the tensor asks for a gradient, and autograd does not see the call")
    if not isinstance(site.document.parent(call), cst.Expr):
        return Refusal("its result is used")
    if name == "reduce":
        args = [tensor, *([given["op"]] if "op" in given else [])]
        func = call.func.with_changes(attr=cst.Name("all_reduce"))
        new: cst.BaseExpression = call.with_changes(func=func, args=[cst.Arg(one) for one in args])
        return Rewrite(
            {call: new},
            "`all_reduce` is traced, and gives every rank the sum.",
            Applicability.UNSAFE,
            ("the ranks other than `dst` do not read the tensor afterwards",),
        )
    if not isinstance(tensor, cst.Name | cst.Attribute) or "src" not in given:
        return Refusal("the tensor would be computed twice")
    new = build_expression(
        "{x}.copy_({broadcast}({x}, {src}, {world}))",
        x=tensor,
        src=given["src"],
        broadcast=_functional_name(site, "broadcast"),
        world=_world_group(site),
    )
    return Rewrite({call: new}, "The functional broadcast is traced.", imports=_IMPORTS)


def _rewrite_gather(site: Site, call: cst.Call, tensor: cst.BaseExpression) -> Rewrite | Refusal:
    """Return the rewrite of `torch.cat(all_gather(x))` to one functional call, or a refusal.

    The new call is `all_gather_tensor_autograd(x, …)`, which has a gradient. `call` is the
    `all_gather`, and `tensor` is `x`.
    """
    arg = site.document.parent(call)
    cat = site.document.parent(arg)
    if not isinstance(arg, cst.Arg) or site.callee_name(cat) not in ("torch.cat", "torch.concat"):
        return Refusal("only gathered tensors that are concatenated at once have a traced form")
    assert isinstance(cat, cst.Call)
    dims = [one.value for one in cat.args if one is not arg]
    new = build_expression(
        "{gather}({x}, {dim}, {world})",
        x=tensor,
        dim=dims[0] if dims else cst.Integer("0"),
        gather=_functional_name(site, "all_gather_tensor_autograd"),
        world=_world_group(site),
    )
    why = "The functional gather is traced, and differentiable."
    return Rewrite({cat: new}, why, imports=_IMPORTS)


def _arguments_by_name(
    call: cst.Call, names: tuple[str, ...]
) -> dict[str, cst.BaseExpression] | None:
    """Return the arguments of a call by parameter name; `async_op=False` is left out.

    `names` are the function's parameters in order. None if an argument is starred, has a name that
    is not among them, or is `group_src` or `group_dst`.
    """
    given: dict[str, cst.BaseExpression] = {}
    for place, arg in enumerate(call.args):
        name = arg.keyword.value if arg.keyword is not None else names[min(place, len(names) - 1)]
        if arg.star or name not in names or name.startswith("group_"):
            return None
        given[name] = arg.value
    if isinstance(off := given.get("async_op"), cst.Name) and off.value == "False":
        del given["async_op"]
    return given


def _is_default(site: Site, group: cst.BaseExpression | None) -> bool:
    """Return whether `group`, an argument for a process group, means the default group.

    It does if it is not given (None), or is written as `None` or `torch.distributed.group.WORLD`.
    """
    if group is None or (isinstance(group, cst.Name) and group.value == "None"):
        return True
    return site.document.qualified_name(group) == "torch.distributed.group.WORLD"


def _attribute_code(site: Site, module: str, alias: str, name: str) -> str:
    """Return the code of `module.name`, with the name by which this file imports the module.

    For "torch.distributed" and "group.WORLD" this is "dist.group.WORLD" after
    `import torch.distributed as dist`. Without such an import, `alias` is used as that name.
    """
    known = (one for one, meaning in site.document.imports.items() if meaning == module)
    return f"{next(known, alias)}.{name}"


def _functional_name(site: Site, name: str) -> str:
    return _attribute_code(site, _FUNCTIONAL, "funcol", name)


def _world_group(site: Site) -> str:
    return _attribute_code(site, "torch.distributed", "dist", "group.WORLD")


RULE = Rule(
    "FG512",
    "broadcast-in-graph",
    frozenset({Category.COLLECTIVE.value, Category.EXCEPTION.value}),
    rewrite,
)
