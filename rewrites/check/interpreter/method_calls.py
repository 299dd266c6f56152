"""Calls of methods: of tensors, containers, strings, modules and other objects."""

from __future__ import annotations

import ast

from fullgraph.rewrites.check.interpreter.changes import is_constant, may_be_new
from fullgraph.rewrites.check.interpreter.external_calls import ExternalCalls
from fullgraph.rewrites.check.interpreter.operations import (
    NUMERIC_ONLY,
    ONLY_TENSOR_METHODS,
    torch_result,
)
from fullgraph.rewrites.check.interpreter.values import (
    BOOL,
    INT,
    LIKELY_TENSOR,
    NONE,
    PLAIN,
    STR,
    TENSOR,
    UNKNOWN,
    ClassObject,
    Data,
    Function,
    Instance,
    Layer,
    Literal,
    Mapping,
    Method,
    Object,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    is_proved,
    join_all,
    make_sequence,
    sequence_of,
    weakened,
)
from fullgraph.rewrites.check.project import ClassDefinition
from fullgraph.rewrites.check.syntax import dotted


class MethodCalls(ExternalCalls):
    """Part of the interpreter that evaluates calls of methods, such as `x.item()`."""

    def call_method(
        self, method: Method, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        """Return the result of calling a bound method."""
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
        """Return the result of a method of an unknown value: a tensor's if only tensors have it."""
        if name not in ONLY_TENSOR_METHODS:
            self.call_unknown(args, keywords, node)
            return UNKNOWN
        receiver = TENSOR if name not in NUMERIC_ONLY else LIKELY_TENSOR
        result = torch_result(name, [receiver, *args], keywords)
        return result if name not in NUMERIC_ONLY else weakened(result)

    def call_unknown(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> None:
        """Note a call of an unknown function if its name is that of a logger's method."""
        path = dotted(node.func)
        owner, _, method = path.rpartition(".")
        if owner.rpartition(".")[2].lower() in ("logger", "log", "_logger", "logging"):
            key = f"call:logging.Logger.{_plain_level(method)}"
            self.note(node, key, True, self.frame_statement())

    def _array_method(self, array: Tensor, name: str, node: ast.Call) -> Value:
        if name in ("item", "tolist"):
            self.note(node, f"numpy.{name}", array.proved, self.frame_statement())
            return (Data(array.proved),)
        return (array,)

    def _sequence_method(
        self, one: Sequence, name: str, args: list[Value], node: ast.Call
    ) -> Value:
        if name in ("append", "appendleft", "extend", "insert", "add", "update") and args:
            grows = one.kind != "set" or not all(map(is_constant, args))
            if grows and isinstance(node.func, ast.Attribute):
                self.note_growth(node, node.func.value, "recompile.module_list")
            added = args[-1] if name not in ("extend", "update") else self.element_of(args[0])
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
        new = name == "setdefault" and args and may_be_new(one, args[0])
        if new and isinstance(node.func, ast.Attribute):
            self.note_growth(node, node.func.value, "recompile.module_dict")
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
        """Assign `value` to the variable on which a mutating method is called."""
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
        """Assign `value` to the variable or attribute on which a mutating method is called."""
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
            return self.call((one,), args, keywords, node)
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
        """Record that an attribute of the instances of `kind` may have a value."""
        raise NotImplementedError

    def _apply_function(
        self, kind: ClassDefinition, args: list[Value], keywords: dict[str, Value]
    ) -> Value:
        """Return the result of `apply` of an autograd.Function: that of its `forward`."""
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
    """Return the standard name of a logging method: "warning" for "warn" and "warning_once"."""
    base = method.removesuffix("_once").removesuffix("_advice").removesuffix("_rank0")
    return {"warn": "warning", "fatal": "critical"}.get(base, base)
