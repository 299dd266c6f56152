"""Calls of expressions, and of the functions, classes and instances of the project."""

from __future__ import annotations

import ast

from fullgraph.rewrites.analysis import word_set
from fullgraph.rewrites.check.interpreter.method_calls import MethodCalls
from fullgraph.rewrites.check.interpreter.values import (
    PLAIN,
    TENSOR,
    UNKNOWN,
    ClassObject,
    External,
    Function,
    Instance,
    Layer,
    Mapping,
    Method,
    Sequence,
    Super,
    Value,
    join_all,
)
from fullgraph.rewrites.check.project import ClassDefinition

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
"""Decorators that do not change a function's result, by the last part of their names."""


class Calls(MethodCalls):
    """Part of the interpreter that evaluates call expressions and calls the project's functions."""

    def eval_Call(self, node: ast.Call) -> Value:
        function = self.evaluate(node.func)
        args, keywords = self.arguments_of(node)
        self.constant_arguments = not any(isinstance(one, ast.Starred) for one in node.args)
        return self.call(function, args, keywords, node)

    def arguments_of(self, node: ast.Call) -> tuple[list[Value], dict[str, Value]]:
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
                self.note_made(node, kind)
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
        self.call_unknown(args, keywords, node)
        return UNKNOWN

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
        """Return a new instance of `kind`, a class of the project."""
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
        """Return the result of calling an instance of `kind`: of its `__call__`, else `forward`."""
        for name in ("__call__", "forward"):
            method = kind.method(name)
            if method is not None:
                made = Function(method, (Instance(kind),))
                return self._call_project(made, args, keywords, node)
        for base in kind.order:
            if isinstance(base, str) and base.startswith("torch.nn."):
                return self.call_layer(Layer(base), args, keywords, node)
        return UNKNOWN
