"""Calls of functions and classes outside of the project, such as those of torch and NumPy."""

from __future__ import annotations

import ast

from fullgraph.rewrites.analysis import word_set
from fullgraph.rewrites.check.interpreter.layer_calls import LayerCalls
from fullgraph.rewrites.check.interpreter.operations import (
    DYNAMIC,
    LAYERS,
    dtype_named,
    function_name,
    is_dynamic_repeat,
    torch_result,
)
from fullgraph.rewrites.check.interpreter.values import (
    BOOL,
    FALSE,
    PLAIN,
    TENSOR,
    TRUE,
    UNKNOWN,
    Data,
    External,
    Mapping,
    Object,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    is_proved,
    sequence_of,
)

CONSTANT_CALLS = {
    **dict.fromkeys(
        word_set(
            "torch.compiler.is_compiling torch.compiler.is_dynamo_compiling "
            "torch._dynamo.is_compiling torch._utils.is_compiling "
            "torch._dynamo.external_utils.is_compiling"
        ),
        TRUE,
    ),
    **dict.fromkeys(
        word_set(
            "torch.jit.is_scripting torch.jit.is_tracing torch.onnx.is_in_onnx_export "
            "torch.compiler.is_exporting torch._C._get_tracing_state "
            "torch.overrides.has_torch_function torch.overrides.has_torch_function_unary "
            "torch.overrides.has_torch_function_variadic"
        ),
        FALSE,
    ),
}
"""Results of functions that are constant in a compiled program."""
SIZED = {
    **dict.fromkeys(word_set("zeros ones empty rand randn arange eye"), 0),
    **dict.fromkeys(word_set("view reshape expand repeat new_zeros new_ones new_empty"), 1),
    "linspace": 2,
}
"""Functions and methods that take sizes, and the index of the first size in their operands."""
NEEDS_TENSOR = DYNAMIC | word_set("equal allclose is_nonzero")
DRAWS = word_set("random.uniform random.randint random.randrange")
"""Functions of `random` that Dynamo traces as numbers unknown to the graph."""
LOGGERS = ("getLogger", "get_logger", "getChild")


class ExternalCalls(LayerCalls):
    """Part of the interpreter that evaluates calls of functions and classes outside the project."""

    def call_external(
        self, name: str, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        """Return the result of the external function or class with the qualified name `name`."""
        if name.startswith("builtins."):
            return self.call_builtin(name[9:], args, keywords, node)
        if name in CONSTANT_CALLS:
            return CONSTANT_CALLS[name]
        if name in DRAWS:
            self.note(node, f"call:{name}", True, self.frame_statement())
            return (Data(True, "", True),)
        last = name.rpartition(".")[2]
        if name.startswith("torch.nn.") and last in LAYERS and last[:1].isupper():
            if "size_average" in keywords or ("reduce" in keywords and last.endswith("Loss")):
                self.note(node, "legacy.size_average_layer", True, self.frame_statement())
            return self.make_layer(name, args, keywords)
        if name.startswith("torch.nn.functional.") and "size_average" in keywords:
            self.note(node, "legacy.size_average", True, self.frame_statement())
        self._note_external(name, args, keywords, node)
        if name.startswith("torch.distributed.") and keywords.get("async_op") == TRUE:
            return (Object("torch.distributed.Work"),)
        if name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
            return TENSOR
        if name in ("torch.tensor", "torch.as_tensor", "torch.asarray", "torch.from_numpy"):
            return (Tensor(dtype=self._dtype_of_new(args, keywords)),)
        if name == "torch.autograd.Variable":
            return args[0] if args and is_proved(args[0]) else TENSOR
        if name in ("torch.is_tensor", "torch.is_floating_point", "torch.is_complex"):
            return (
                self.builtin_isinstance([args[0], (External("torch.Tensor"),)], {}, node)
                if (name == "torch.is_tensor" and args)
                else BOOL
            )
        if name == "torch.utils.checkpoint.checkpoint" and args:
            return self.call(args[0], args[1:], {}, node)
        function = function_name(name)
        if function:
            found = torch_result(function, args, keywords)
            if found == UNKNOWN and name.startswith("torch.nn.functional."):
                return (Tensor(),)
            return found
        if name.startswith("numpy."):
            return self._numpy_result(name, args)
        if last in LOGGERS:
            return (Object("logging.Logger"),)
        if name.startswith("math."):
            return self._math_result(args)
        if name in ("einops.rearrange", "einops.repeat", "einops.reduce", "einops.einsum"):
            return args[0] if name != "einops.einsum" else TENSOR
        if name.startswith(("torch.distributions.", "torch.Generator", "random.Random")):
            return (Object(name),)
        if name in ("copy.copy", "copy.deepcopy", "typing.cast", "torch.Tensor.clone") and args:
            return args[-1]
        if name == "collections.deque":
            return sequence_of(self.element_of(args[0]) if args else UNKNOWN)
        if name == "collections.OrderedDict":
            return self.builtin_dict(args, keywords, node)
        if name == "collections.defaultdict":
            return (Mapping((), self.call(args[0], [], {}, node) if args else UNKNOWN),)
        if last[:1].isupper() and "." in name:
            return (Object(name),)
        return UNKNOWN

    def _note_external(
        self, name: str, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> None:
        """Note the constructs of a call of an external function."""
        function = function_name(name)
        if function in SIZED:
            self._note_sizes(function, args, keywords, node)
        tensor = bool(args) and any(isinstance(one, Tensor) for one in args[0])
        if function and args and (tensor or function in NEEDS_TENSOR):
            self.note_operator(function, args, keywords, node)
        if keywords.get("async_op") == TRUE:
            name = f"{name}_async"
        self.note(node, f"call:{name}", True, self.frame_statement())

    def note_operator(
        self, name: str, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> None:
        """Note the construct of a torch function or method on a tensor."""
        if name == "where" and len(args) + len(keywords) > 1:
            return
        if name == "repeat_interleave" and not is_dynamic_repeat(args, keywords):
            return
        if name == "one_hot" and (len(args) > 1 or "num_classes" in keywords):
            return
        if name == "nonzero_static":
            return
        if name in SIZED:
            self._note_sizes(name, args, keywords, node)
        if name == "tensor_split" and not any(isinstance(o, Tensor) for o in (*args, ())[1]):
            return
        self.note(node, f"method:{name}", True, self.frame_statement())

    def _note_sizes(
        self, name: str, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> None:
        """Note tensors that are passed as sizes."""
        first = SIZED[name]
        given = [*args[first:], *(keywords[k] for k in ("size", "steps", "end") if k in keywords)]
        for value in given:
            inner = [e for o in value if isinstance(o, Sequence) for e in (o.items or (o.element,))]
            for one in (value, *inner):
                if any(isinstance(o, Tensor) for o in one):
                    self.note(node, "scalar.size_argument", is_proved(one), self.frame_statement())

    def _dtype_of_new(self, args: list[Value], keywords: dict[str, Value]) -> str:
        if "dtype" in keywords:
            return dtype_named(keywords["dtype"])
        return "bool" if args and args[0] in (TRUE, FALSE, BOOL) else ""

    def _numpy_result(self, name: str, args: list[Value]) -> Value:
        """Return the result of a NumPy function: Dynamo traces arrays as tensors."""
        last = name.rpartition(".")[2]
        if name.startswith("numpy.random.") or last[:1].isupper():
            return UNKNOWN
        if last in ("dtype", "iinfo", "finfo", "isscalar", "ndim", "shape"):
            return PLAIN
        if last in ("save", "savez", "load"):
            return UNKNOWN
        proved = not any(isinstance(one, Unknown) for value in args for one in value)
        return (Tensor(proved, "", False, True),)

    def _math_result(self, args: list[Value]) -> Value:
        data = [one for value in args for one in value if isinstance(one, Data | Tensor)]
        return (Data(all(o.proved for o in data), "float"),) if data else (Plain("float"),)
