"""A helper that is opaque to TorchDynamo alone is traced with fake tensors instead.

`torch._dynamo.nonstrict_trace` leaves a helper out of TorchDynamo, which would stop at its locks,
clocks, C calls or introspection. AOTAutograd then runs the helper's Python once, with fake tensors,
and its tensor operations join the graph, parameters and gradients included.

Before:

    def _scaled(self, x):
        with self.lock:
            return self.project(x) * self.scale

After:

    @torch._dynamo.nonstrict_trace
    def _scaled(self, x):
        with self.lock:
            return self.project(x) * self.scale

Always unsafe: side effects and Python values of the first call hold for all later ones.

Refuses: code in `forward` itself, nested functions, generators, methods of classes that are no
nn.Module, functions with decorators other than `staticmethod`, `torch.no_grad` and
`torch.inference_mode`, helpers that draw random numbers in Python, read tensors' values, look at
the frames around them, or read a global variable that a function of the file changes, and in a file
that uses `torch.jit` those that read other names of the file: `torch.jit.script` does not find
these through the decorator.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site, written_variable
from fullgraph.rewrites.analysis.classes import classes_around
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import dotted_name
from fullgraph.rewrites.transforms.boundaries import decorate, find_helper, is_static, reads_values

_OPAQUE = frozenset(
    {
        Category.WARNING,
        Category.TEXT,
        Category.CLOCK,
        Category.SYSTEM,
        Category.THREAD,
        Category.CACHED,
        Category.IMPORT,
        Category.C_EXTENSION,
        Category.SKIPPED,
        Category.REQUIRES_GRAD,
        Category.GRAD_FN,
        Category.OPAQUE,
        Category.MODULE,
        Category.EXCEPTION,
        Category.GENERATOR,
        Category.ITERATOR,
        Category.COMPREHENSION,
        Category.CONTEXT_MANAGER,
        Category.COPY,
        Category.CLASS,
        Category.DATACLASS,
        Category.INTROSPECTION,
        Category.BUILTIN,
        Category.OBJECT,
        Category.NUMPY,
        Category.CALL,
        Category.BYTECODE,
        Category.INTERNAL,
        Category.OTHER,
    }
)


def rewrite(site: Site) -> Rewrite | Refusal | None:
    helper = find_helper(site)
    if not isinstance(helper, cst.FunctionDef):
        return helper
    name = helper.name.value
    if reason := reads_values(site, helper):
        return Refusal(reason)
    classes = classes_around(site, helper)
    bases = {dotted_name(arg.value) for one in classes for arg in one.bases}
    named = {one.name.value for one in classes}
    if classes and not is_static(helper) and bases <= {*named, "object", "abc.ABC"}:
        return Refusal(f"`{name}` is a method of `{classes[0].name.value}`, which is no nn.Module")
    if written := written_variable(site.document, [helper.body]):
        return Refusal(f"`{name}` reads `{written[0]}`, which line {written[1]} changes")
    try:
        edits, assumes = decorate(site, helper, "torch._dynamo.nonstrict_trace")
    except NotApplicable as escape:
        return Refusal(str(escape))
    return Rewrite(
        edits,
        f"TorchDynamo does not enter `{name}`; AOTAutograd traces its tensor operations.",
        Applicability.UNSAFE,
        (f"what `{name}` does and reads in Python may stay that of its first call", *assumes),
        imports=("torch",),
    )


RULE = Rule(
    "FG903",
    "trace-through",
    frozenset(category.value for category in _OPAQUE),
    rewrite,
    boundary=1,
)
