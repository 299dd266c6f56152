"""Calls: of the project's functions and classes, of layers, of torch and of anything else."""

from __future__ import annotations

import ast

from fullgraph.rewrites.analysis import word_set
from fullgraph.rewrites.check.builtin_calls import BuiltinCalls
from fullgraph.rewrites.check.operations import (
    CELLS,
    CONTAINERS,
    DYNAMIC,
    LAYERS,
    NUMERIC_ONLY,
    ONLY_TENSOR_METHODS,
    RNNS,
    dtype_named,
    function_name,
    is_dynamic_repeat,
    torch_result,
)
from fullgraph.rewrites.check.project import ClassDefinition, dotted
from fullgraph.rewrites.check.recompiles import is_fresh, owners_of
from fullgraph.rewrites.check.values import (
    BOOL,
    FALSE,
    INT,
    LIKELY_TENSOR,
    NONE,
    PLAIN,
    STR,
    TENSOR,
    TRUE,
    UNKNOWN,
    ClassObject,
    Data,
    External,
    Function,
    Instance,
    Layer,
    Literal,
    Mapping,
    Method,
    Object,
    Plain,
    Sequence,
    Super,
    Tensor,
    Unknown,
    Value,
    is_proved,
    join,
    join_all,
    make_sequence,
    sequence_of,
    weakened,
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
"""Functions whose result is known in a compiled program."""
OPAQUE_DECORATORS = word_set("""
    torch.compiler.disable torch._dynamo.disable torch.compiler.allow_in_graph
    torch._dynamo.allow_in_graph torch.library.custom_op torch.compiler.nonstrict_trace
    torch._dynamo.nonstrict_trace torch.jit.script torch.jit.ignore torch.jit.unused
    torch.library.triton_op torch._dynamo.skip torch.fx.wrap torch.jit.export
    torch.compiler.substitute_in_graph triton.jit torch._dynamo.disallow_in_graph
    """)
DISABLED = frozenset({"torch.compiler.disable", "torch._dynamo.disable", "torch._dynamo.skip"})
TRANSPARENT = word_set("""
    staticmethod classmethod property override abstractmethod jaxtyped beartype typechecked no_grad
    enable_grad inference_mode autocast custom_fwd custom_bwd cached_property lru_cache cache
    overload final wraps deprecated typecheck set_grad_enabled compile
    """)
"""Last parts of the names of decorators that keep a function's result."""
SIZED = {
    **dict.fromkeys(word_set("zeros ones empty rand randn arange eye"), 0),
    **dict.fromkeys(word_set("view reshape expand repeat new_zeros new_ones new_empty"), 1),
    "linspace": 2,
}
"""Functions and methods with sizes, and the place of the first one among their operands."""
NEEDS_TENSOR = DYNAMIC | word_set("equal allclose is_nonzero")
DRAWS = word_set("random.uniform random.randint random.randrange")
"""Draws that are traced as numbers which the graph does not know."""
LOGGERS = ("getLogger", "get_logger", "getChild")
DEPTH = 24


class Calls(BuiltinCalls):
    """Layer of the interpreter: calls."""

    def eval_Call(self, node: ast.Call) -> Value:
        function = self.evaluate(node.func)
        args, keywords = self._arguments(node)
        self.constant_arguments = not any(isinstance(one, ast.Starred) for one in node.args)
        return self.call(function, args, keywords, node)

    def _arguments(self, node: ast.Call) -> tuple[list[Value], dict[str, Value]]:
        args: list[Value] = []
        for one in node.args:
            value = self.evaluate(one)
            if not isinstance(one, ast.Starred):
                args.append(value)
                continue
            match value:
                case (Sequence(items=tuple() as items),):
                    args += items
                case _:
                    args += [self.element_of(value)] * 2
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            else:
                for alternative in value:
                    if isinstance(alternative, Mapping):
                        keywords |= {str(k): v for k, v in alternative.items}
        return args, keywords

    def call(
        self, function: Value, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        if len(function) == 1:
            return self._call_one(function[0], args, keywords, node)
        return join_all(self._call_one(one, args, keywords, node) for one in function) or UNKNOWN

    def _call_one(
        self, one: object, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        match one:
            case Function():
                return self._call_project(one, args, keywords, node)
            case ClassObject(kind=kind):
                return self.construct(kind, args, keywords)
            case Instance(kind=kind):
                return self.call_instance(kind, args, keywords, node)
            case Layer():
                return self.call_layer(one, args, keywords, node)
            case External(name=name):
                return self.call_external(name, args, keywords, node)
            case Method():
                return self.call_method(one, args, keywords, node)
            case Super():
                return UNKNOWN
        self._call_unknown(args, keywords, node)
        return UNKNOWN

    def _call_unknown(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> None:
        """Note calls of loggers that are known by their names alone."""
        path = dotted(node.func)
        owner, _, method = path.rpartition(".")
        if owner.rpartition(".")[2].lower() in ("logger", "log", "_logger", "logging"):
            key = f"call:logging.Logger.{_plain_level(method)}"
            self.note(node, key, True, self.frame_statement())

    def _call_project(
        self, function: Function, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        decorators = function.definition.decorators
        for name in decorators:
            if name in OPAQUE_DECORATORS:
                if name in DISABLED:
                    self.note(node, "call.disabled", True, self.frame_statement())
                return TENSOR if name == "torch.library.custom_op" else UNKNOWN
        result = self.call_function(function, args, keywords)
        if all(name.rpartition(".")[2] in TRANSPARENT for name in decorators):
            return result
        return UNKNOWN

    def construct(
        self, kind: ClassDefinition, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        """Return a new instance of a class of the project."""
        if kind.has_base(["torch.autograd.Function"]):
            return UNKNOWN
        names = {one for one in kind.order if isinstance(one, str)}
        if names & {"enum.Enum", "enum.IntEnum", "NamedTuple", "typing.NamedTuple"}:
            return PLAIN if "enum" in str(names) else UNKNOWN
        return (Instance(kind),)

    def call_instance(
        self,
        kind: ClassDefinition,
        args: list[Value],
        keywords: dict[str, Value],
        node: ast.Call,
    ) -> Value:
        """Return the result of calling an instance: of `__call__`, else of `forward`."""
        for name in ("__call__", "forward"):
            method = kind.method(name)
            if method is not None:
                made = Function(method, (Instance(kind),))
                return self._call_project(made, args, keywords, node)
        for base in kind.order:
            if isinstance(base, str) and base.startswith("torch.nn."):
                return self.call_layer(Layer(base), args, keywords, node)
        return UNKNOWN

    # Layers.

    def call_layer(
        self, layer: Layer, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        """Return the result of calling a module of torch.nn."""
        last = layer.name.rpartition(".")[2]
        if last in RNNS:
            self.note(node, f"layer:{last}", True, self.frame_statement())
            state = TENSOR if last != "LSTM" else make_sequence("tuple", [TENSOR, TENSOR])
            return make_sequence("tuple", [TENSOR, state])
        if last in CELLS:
            return make_sequence("tuple", [TENSOR, TENSOR])
        if last == "MultiheadAttention":
            return make_sequence("tuple", [TENSOR, join(TENSOR, NONE)])
        if last == "Sequential" and layer.element:
            return self._call_sequential(layer, args, node)
        if last in CONTAINERS:
            return UNKNOWN
        if last == "Identity":
            return args[0] if args else UNKNOWN
        if last.startswith(("Adaptive", "Max")) and "return_indices" in keywords:
            return sequence_of(TENSOR, "tuple")
        dynamic = any(isinstance(o, Tensor) and o.dynamic for value in args[:1] for o in value)
        return (Tensor(True, "float", dynamic),)

    def _call_sequential(self, layer: Layer, args: list[Value], node: ast.Call) -> Value:
        """Return the result of a Sequential, whose layers are called on tensors."""
        simple = [
            isinstance(one, Layer)
            and one.name.rpartition(".")[2] not in (*RNNS, *CONTAINERS, "MultiheadAttention")
            for one in layer.element
        ]
        if simple and all(simple):
            return (Tensor(dtype="float"),)
        results = [self._call_one(one, args, {}, node) for one in layer.element]
        return join_all(results) or UNKNOWN

    def make_layer(self, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        """Return a module of torch.nn, with what it contains."""
        last = name.rpartition(".")[2]
        element: Value = ()
        if last in CONTAINERS:
            for value in (*args, *keywords.values()):
                parts = [
                    one.element if isinstance(one, Sequence | Mapping) else (one,) for one in value
                ]
                for one in value:
                    if isinstance(one, Mapping):
                        parts += [inner for _, inner in one.items]
                element = join_all((element, *parts))
        return (Layer(name, element),)

    # Torch and other external functions.

    def call_external(
        self, name: str, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        """Return the result of a function or class outside of the project."""
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
        if last[:1].isupper() and "." in name:
            return (Object(name),)
        return UNKNOWN

    def _note_external(
        self, name: str, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> None:
        """Note the construct of a call of an external function."""
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
        """Note tensors that are sizes of a new tensor."""
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
        """Return the result of a NumPy function: traced NumPy is made of tensors."""
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

    # Methods of values.

    def call_method(
        self, method: Method, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        """Return the result of a method of a tensor, container, layer or external object."""
        one = method.receiver[0]
        match one:
            case Unknown():
                return self._method_of_unknown(method.name, args, keywords, node)
            case Tensor(array=True):
                return self._array_method(one, method.name, node)
            case Tensor():
                self.note_operator(method.name, [method.receiver, *args], keywords, node)
                return torch_result(method.name, [method.receiver, *args], keywords)
            case Sequence():
                return self._sequence_method(one, method.name, args, node)
            case Mapping():
                return self._mapping_method(one, method.name, args, node)
            case Literal(kind="str") | Plain(kind="str"):
                return self._string_method(method.name, args, node)
            case Layer():
                return self._layer_method(one, method.name, args, node)
            case Instance():
                return self._module_method(one, method.name, args, keywords, node)
            case ClassObject(kind=kind) if method.name == "apply":
                return self._apply_function(kind, args, keywords)
            case Object(name=name):
                return self._object_method(name, method.name, args, keywords, node)
            case Data():
                return (Data(one.proved),)
            case Plain(kind="size"):
                return INT
        return UNKNOWN

    def _method_of_unknown(
        self, name: str, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        """Return the result of a method that only tensors have, on a value of unknown kind."""
        if name not in ONLY_TENSOR_METHODS:
            self._call_unknown(args, keywords, node)
            return UNKNOWN
        receiver = TENSOR if name not in NUMERIC_ONLY else LIKELY_TENSOR
        result = torch_result(name, [receiver, *args], keywords)
        return result if name not in NUMERIC_ONLY else weakened(result)

    def _array_method(self, array: Tensor, name: str, node: ast.Call) -> Value:
        if name in ("item", "tolist"):
            self.note(node, f"numpy.{name}", array.proved, self.frame_statement())
            return (Data(array.proved),)
        return (array,)

    def _sequence_method(
        self, one: Sequence, name: str, args: list[Value], node: ast.Call
    ) -> Value:
        if name in ("append", "extend", "insert", "add", "update") and args:
            path = dotted(node.func.value) if isinstance(node.func, ast.Attribute) else ""
            first, _, rest = path.partition(".")
            if rest and name != "update" and not is_fresh(self.frames, path):
                owners = owners_of(self.lookup(first))
                if owners and "." not in rest:
                    self.note(node, "recompile.module_list", True, self.frame_statement())
            added = args[-1] if name in ("append", "insert", "add") else self.element_of(args[0])
            self._rebind(node, (Sequence(one.kind, None, join_all((one.element, added))),))
            return NONE
        if name in ("pop", "popleft"):
            self._rebind(node, (Sequence(one.kind, None, one.element),))
            return one.element or UNKNOWN
        if name in ("index", "count"):
            if any(isinstance(o, Tensor) for value in (one.element, *args) for o in value):
                self.note(
                    node,
                    "branch.list_index",
                    is_proved(one.element or UNKNOWN),
                    self.frame_statement(),
                )
            return INT
        return (one,) if name == "copy" else UNKNOWN if name != "sort" else NONE

    def _mapping_method(self, one: Mapping, name: str, args: list[Value], node: ast.Call) -> Value:
        values = join_all((*(value for _, value in one.items), one.element))
        if name in ("get", "pop", "setdefault"):
            default = args[1] if len(args) > 1 else NONE
            if args and len(args[0]) == 1 and isinstance(args[0][0], Literal):
                known = dict(one.items).get(args[0][0].value)
                if known is not None:
                    return known
                return join_all((one.element, default)) if one.element else default
            return join_all((values, default))
        if name == "values":
            return sequence_of(values or UNKNOWN)
        if name == "items":
            pair = make_sequence("tuple", [STR if one.items else PLAIN, values or UNKNOWN])
            return sequence_of(pair)
        if name == "keys":
            return sequence_of(STR if one.items else PLAIN)
        if name == "update":
            extra = [o for value in args for o in value if isinstance(o, Mapping)]
            items = dict(one.items)
            for other in extra:
                items |= dict(other.items)
            rest = join_all((one.element, *(o.element for o in extra)))
            if len(extra) < len(args):
                rest = join_all((rest, UNKNOWN))
            self._rebind(node, (Mapping(tuple(items.items()), rest),))
            return NONE
        return (one,) if name == "copy" else UNKNOWN

    def _rebind(self, node: ast.Call, value: Value) -> None:
        """Bind the variable whose method changed it."""
        target = node.func.value if isinstance(node.func, ast.Attribute) else None
        path, env = dotted(target), self.frame.env
        if path and env is not None and (path in env or "." not in path):
            env[path] = value

    def _string_method(self, name: str, args: list[Value], node: ast.Call) -> Value:
        if name == "format":
            for arg, value in zip(node.args, args, strict=False):
                self.note_tensor(arg, value, "text.format_method")
        if name.startswith(("is", "starts", "ends")):
            return BOOL
        if name in ("split", "rsplit", "splitlines", "partition", "rpartition"):
            return sequence_of(STR)
        return INT if name in ("count", "find", "index") else STR

    def _layer_method(self, layer: Layer, name: str, args: list[Value], node: ast.Call) -> Value:
        if name == "__call__":
            return self.call_layer(layer, args, {}, node)
        if name in ("append", "add_module", "insert", "extend", "register_module", "update"):
            added = self.element_of(args[-1]) if name == "extend" else args[-1] if args else ()
            self.rebind_attribute(node, (Layer(layer.name, join_all((layer.element, added))),))
            return NONE
        if name in ("values", "children"):
            return sequence_of(layer.element or UNKNOWN)
        if name in ("items", "named_children"):
            return sequence_of(make_sequence("tuple", [STR, layer.element or UNKNOWN]))
        if name in ("parameters", "buffers"):
            return sequence_of(TENSOR)
        if name in ("to", "cuda", "cpu", "eval", "train", "float", "half", "requires_grad_"):
            return (layer,)
        return UNKNOWN

    def rebind_attribute(self, node: ast.Call, value: Value) -> None:
        """Bind the attribute whose method changed it; the layer of statements knows how."""
        if isinstance(node.func, ast.Attribute):
            self.assign(node.func.value, value)

    def _module_method(
        self,
        one: Instance,
        name: str,
        args: list[Value],
        keywords: dict[str, Value],
        node: ast.Call,
    ) -> Value:
        if name == "__call__":
            return self.call_instance(one.kind, args, keywords, node)
        if name in ("register_buffer", "register_parameter", "add_module", "register_module"):
            value = args[1] if len(args) > 1 else keywords.get("tensor", UNKNOWN)
            if args and len(args[0]) == 1 and isinstance(args[0][0], Literal):
                self.set_attribute(one.kind, str(args[0][0].value), value)
            return NONE
        if name in ("parameters", "buffers"):
            return sequence_of(TENSOR)
        if name in ("named_parameters", "named_buffers"):
            return sequence_of(make_sequence("tuple", [STR, TENSOR]))
        if name in ("to", "cuda", "cpu", "eval", "train", "float", "half", "requires_grad_"):
            return (one,)
        return UNKNOWN

    def set_attribute(self, kind: ClassDefinition, name: str, value: Value) -> None:
        """Set an attribute of the instances of a class."""
        raise NotImplementedError

    def _apply_function(
        self, kind: ClassDefinition, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        """Return the result of an autograd.Function, whose forward is traced."""
        method = kind.method("forward")
        if method is None:
            return UNKNOWN
        context: list[Value] = [(Object("torch.autograd.function.FunctionCtx"),)]
        if kind.method("setup_context") is not None:
            context = []
        return self.call_function(Function(method), [*context, *args], keywords)

    def _object_method(
        self,
        owner: str,
        name: str,
        args: list[Value],
        keywords: dict[str, Value],
        node: ast.Call,
    ) -> Value:
        if owner == "logging.Logger":
            self.note(
                node, f"call:logging.Logger.{_plain_level(name)}", True, self.frame_statement()
            )
            return NONE
        self.note(node, f"call:{owner}.{name}", True, self.frame_statement())
        if owner.startswith("torch.distributions."):
            return TENSOR
        return UNKNOWN


def _plain_level(method: str) -> str:
    """Return the method of logging.Logger that a method such as `warning_once` calls."""
    base = method.removesuffix("_once").removesuffix("_advice").removesuffix("_rank0")
    return {"warn": "warning", "fatal": "critical"}.get(base, base)
