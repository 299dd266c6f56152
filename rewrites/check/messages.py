"""What a finding says: what happens at the expression, and what to write."""

from __future__ import annotations

from collections.abc import Mapping

WIDTH = 60
"""Number of characters of an expression that a message quotes at most."""

_BY_CATEGORY: Mapping[str, str] = {
    "data-dependent branch": "the branch depends on the values of {it}; write `torch.where` for a "
    "choice of values, `torch.cond` for a choice of code",
    "tensor assert": "the assert depends on the values of {it}; write `torch._assert_async`",
    "tensor comparison": "{it} compares tensor values and gives a Python bool; write "
    "`(a == b).all()` and keep the tensor",
    "data-dependent guard": "the graph does not know {it}, which comes out of a tensor; keep it a "
    "tensor and write `torch.where`, or state its range by `torch._check`",
    "scalar extraction": "{it} extracts a Python scalar from a tensor; keep the 0-d tensor",
    "boolean mask": "{it} has a data-dependent shape; write `torch.where({mask}, …)` and reduce "
    "over the whole tensor",
    "masked assignment": "{it} has a data-dependent shape; write `torch.where({mask}, …)`",
    "nonzero": "{it} has a data-dependent shape; compute with the mask, or take a fixed number of "
    "entries by `torch.nonzero_static` or `topk`",
    "bincount": "{it} has a data-dependent length; write `scatter_add` into a tensor of known size",
    "dynamic output shape": "{it} has a data-dependent shape; compute with the mask, or give the "
    "output's size",
    "print / logging": "{it} cannot be traced; write it under "
    "`if not torch.compiler.is_compiling():`",
    "warning": "{it} cannot be traced; write it under `if not torch.compiler.is_compiling():`",
    "tensor as text": "the text of {it} needs its values; build it outside of the compiled code",
    "clock": "{it} reads the clock and cannot be traced; time the call from outside",
    "random number": "{it} draws from a generator outside of torch; write `torch.rand` or "
    "`torch.randint`",
    "random generator state": "{it} reads or sets a generator's state; seed outside of the "
    "compiled code",
    "operating system": "{it} asks the operating system; do it in `__init__` and keep the result",
    "unique id": "{it} cannot be traced; make the id outside of the compiled code",
    "lock or thread": "{it} uses a lock or thread; keep it outside of the compiled code",
    "collective": "{it} cannot be traced; write the functional collective of "
    "`torch.distributed._functional_collectives`",
    "device or stream": "{it} talks to the device; keep it outside of the compiled code",
    "import": "{it} imports while the graph is traced; import at the top of the file",
    "NumPy scalar": "{it} takes a number out of a NumPy value, which is traced as a tensor; write "
    "`math` and Python numbers",
    "NumPy loop": "{it} iterates over a NumPy array, which is traced as a tensor; write `range`",
    "NumPy function": "Dynamo cannot trace {it}; write the torch function",
    "legacy Variable": "{it} is an empty wrapper since torch 0.4 that cannot be traced; write its "
    "argument",
    "packed sequence": "{it} cannot be traced: the sizes of a packed sequence depend on data; pad "
    "and mask",
    "RNN module": "Dynamo leaves {it} to eager unless `torch._dynamo.config.allow_rnn` is set",
    "disabled function": "{it} is excluded by `torch.compiler.disable`, so the graph breaks here",
    "explicit graph break": "{it} asks for a graph break",
    "requires_grad": "{it} sets `requires_grad` in the compiled code; write `.detach()`, or set it "
    "outside",
    "grad_fn": "{it} reads the autograd graph, which does not exist while tracing",
    "hook registration": "{it} registers a hook in the compiled code; register it outside",
    "cached property": "{it} is a `functools.cached_property`, which takes a lock before Python "
    "3.12; compute it in `__init__`",
    "legacy argument": "{it} has a deprecated argument that cannot be traced; write `reduction`",
    "unsupported call": "Dynamo cannot trace {it}; move it out of the compiled code",
    "autograd call": "{it} runs autograd inside the graph; call it outside, or write "
    "`torch.func.grad`",
    "saved_variables": "Dynamo does not support {it}; write `ctx.saved_tensors`",
    "sparse tensor": "{it} makes or uses a sparse tensor, which cannot be compiled",
    "nested tensor": "{it} uses a nested tensor of a form that cannot be compiled",
    "tensor mutation": "{it} changes a tensor in a way that a graph cannot hold",
    "new parameter": "{it} makes a parameter in the compiled code; make it in `__init__`",
    "copy": "Dynamo does not enter {it}; write `.clone()`, or copy in `__init__`",
    "class definition": "{it} defines a class in the compiled code; define it at the top of the "
    "file",
    "context manager": "Dynamo cannot enter {it}; enter it outside of the compiled code",
    "introspection": "{it} looks at the running program and cannot be traced",
    "iterator": "Dynamo cannot step through {it}; write a list, or loop over `range`",
    "non-tensor result": "{it} is a torch function that returns a plain Python value; call it "
    "outside of the compiled code",
    "recompile: number attribute": "{it} has another value in the next call, which recompiles; "
    "keep it as a tensor: `register_buffer`",
    "recompile: global": "{it} has another value in the next call, which recompiles; set it "
    "outside of the compiled code, or count in a tensor",
    "recompile: None or value": "{it} goes from None to a value, which recompiles; set it in "
    "`__init__`",
    "recompile: length": "{it} adds an entry, and each length recompiles; fill it outside of "
    "the compiled code, or keep a running sum and a count as tensors",
    "recompile: dict keys": "{it} gets new keys, which recompiles; fill the dict outside of the "
    "compiled code",
    "recompile: flag": "{it} has another value in the next call, and each value recompiles; set it "
    "outside of the compiled code",
    "recompile: number argument": "another value of {it} recompiles; keep it the same in all "
    "calls, or hand on a tensor",
    "recompile: closure": "{it} is made anew in each call; make it once, outside",
    "recompile: size": "another size of {it} recompiles; pad to a fixed size, or write into a "
    "tensor that has one",
    "recompile: other value": "{it} has another value in the next call, and each value recompiles; "
    "set it outside of the compiled code",
    "recompile: other object": "{it} is another object in the next call, which recompiles; make it "
    "once, in `__init__`",
}
_DEFAULT = "Dynamo cannot trace {it}; move it out of the compiled code"


def message_of(category: str, expression: str, mask: str = "") -> str:
    """Return the message of a finding: the sentence for its category, about its expression.

    `mask` is the code of the boolean index in the expression; if it is "", the message says "mask".
    """
    template = _BY_CATEGORY.get(category, _DEFAULT)
    text = template.format(it=quoted(expression), mask=mask or "mask")
    return text[0].upper() + text[1:] if not text.startswith("`") else text


def quoted(expression: str) -> str:
    """Return an expression in backquotes, on one line and shortened."""
    text = " ".join(expression.split())
    if len(text) > WIDTH:
        text = f"{text[: WIDTH - 21]} … {text[-18:]}"
    return f"`{text}`"
