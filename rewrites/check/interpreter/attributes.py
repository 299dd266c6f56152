"""Attributes of values and elements of modules."""

from __future__ import annotations

import ast
from dataclasses import replace

from fullgraph.rewrites.analysis import word_set
from fullgraph.rewrites.check.interpreter.changes import Changes
from fullgraph.rewrites.check.interpreter.operations import (
    NUMERIC_ONLY,
    ONLY_TENSOR_METHODS,
    TENSOR_ONLY,
    tensor_attribute,
)
from fullgraph.rewrites.check.interpreter.values import (
    BOOL,
    PLAIN,
    STR,
    TENSOR,
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
    ModuleObject,
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
)
from fullgraph.rewrites.check.project import ClassDefinition, FunctionDefinition

_LOGGERS = frozenset({"logging.Logger", "logging.LoggerAdapter"})
_LAYER_TENSORS = frozenset({"weight", "bias", "running_mean", "running_var", "in_proj_weight"})
_MODULE_METHODS = word_set("""
    add_module apply buffers children cpu cuda double eval extra_repr float get_buffer get_parameter
    get_submodule half load_state_dict modules named_buffers named_children named_modules
    named_parameters parameters register_buffer register_forward_hook register_forward_pre_hook
    register_full_backward_hook register_module register_parameter requires_grad_ state_dict to
    train type zero_grad append extend insert items keys values __call__
    """)


class Attributes(Changes):
    """Part of the interpreter that evaluates attributes, such as `x.shape` and `self.layer`."""

    inner: dict[ast.AST, FunctionDefinition]
    comprehensions = 0
    """Number of comprehensions that contain the expression being evaluated."""
    place: ast.expr | None = None
    """The attribute access being evaluated."""
    seen_value: Value = UNKNOWN
    """Value of the last condition that was evaluated."""

    def attribute(self, value: Value, name: str, node: ast.Attribute) -> Value:
        """Return the attribute `name` of a value; `node` is the access."""
        if len(value) > 1 and any(isinstance(one, Tensor) for one in value):
            value = self.as_tensor(value, name)
        if len(value) == 1:
            return self._attribute_of(value[0], name, node)
        return join_all(self._attribute_of(one, name, node) for one in value) or UNKNOWN

    def _attribute_of(self, one: object, name: str, node: ast.Attribute) -> Value:
        match one:
            case Unknown():
                return (Method((one,), name),) if name in ONLY_TENSOR_METHODS else UNKNOWN
            case Tensor():
                found = tensor_attribute(one, name)
                if found is not None:
                    self.note(node, f"attribute:{name}", one.proved, self.frame_statement())
                    return found
                return (Method((one,), name),)
            case Instance(kind=kind):
                self.place = node
                self.note_read(node, kind, name)
                return self.instance_attribute(kind, name)
            case Super(kind=kind, after=after):
                method = kind.method(name, after)
                return (Function(method, (Instance(kind),)),) if method else UNKNOWN
            case External(name=module):
                return self.external_attribute(module, name)
            case ModuleObject(module=module):
                known = module.find(name)
                if known is None and name in module.assigned:
                    return self.global_value(module, name)
                if known is None:
                    inside = self.project.module(f"{module.name}.{name}", module)
                    return (ModuleObject(inside),) if inside is not None else UNKNOWN
                return self.value_of_definition(known)
            case ClassObject(kind=kind):
                return self._class_attribute(kind, name)
            case Layer():
                return self._layer_attribute(one, name)
            case Data():
                return (Method((one,), name),)
            case Plain(kind="dtype") | Plain(kind="device"):
                return BOOL if name.startswith("is_") else STR
            case Object(name="torch.autograd.function.FunctionCtx"):
                if name in ("saved_tensors", "saved_variables"):
                    self.note(node, f"attribute:{name}", True, self.frame_statement())
                    return (Sequence("tuple", None, TENSOR),)
                return (Method((one,), name),) if name == "save_for_backward" else UNKNOWN
            case Sequence() | Mapping() | Object() | Plain() | Literal():
                return (Method((one,), name),)
        return UNKNOWN

    def as_tensor(self, value: Value, name: str) -> Value:
        """Return a value narrowed to its tensors, if only tensors have the attribute `name`."""
        if name not in TENSOR_ONLY and name not in NUMERIC_ONLY:
            return value
        tensors = tuple(one for one in value if isinstance(one, Tensor))
        rest = [one for one in value if not isinstance(one, Tensor | Unknown)]
        known = [one for one in rest if not (isinstance(one, Literal) and one.value is None)]
        return value if known else tuple(replace(one, proved=True) for one in tensors)

    def note_here(self, construct: str) -> None:
        """Note a construct at the attribute access being evaluated."""
        if self.place is not None:
            self.note(self.place, construct, True, self.frame_statement())

    def note_tensor(self, node: ast.expr, value: Value, construct: str) -> None:
        """Note a construct if a value may be a tensor."""
        tensors = [one for one in value if isinstance(one, Tensor)]
        if tensors:
            self.note(node, construct, is_proved(value), self.frame_statement())

    def note_branch(self, node: ast.expr, value: Value, construct: str) -> None:
        """Note a branch on a value if it may be a tensor or depend on data."""
        if any(isinstance(one, Tensor) for one in value):
            self.note_tensor(node, value, construct)
        elif any(isinstance(one, Data) for one in value):
            prefix = "random" if all(isinstance(o, Data) and o.random for o in value) else "number"
            kind = construct.replace("branch.", f"{prefix}.").replace(
                "assert.", f"{prefix}.assert_"
            )
            self.note(node, kind, is_proved(value), self.frame_statement())

    def external_attribute(self, module: str, name: str) -> Value:
        """Return an attribute of the external module or class `module`."""
        if module == "builtins.super":
            return UNKNOWN
        return self.external(f"{module}.{name}")

    def instance_attribute(self, kind: ClassDefinition, name: str) -> Value:
        """Return an attribute of an instance of `kind`, a class of the project."""
        if name == "training":
            return BOOL
        method = kind.method(name)
        if kind.has_base(_LOGGERS):
            return (Method((Object("logging.Logger"),), name),)  # Dynamo does not enter them
        if method is not None:
            return self._bound(method, kind)
        found = self.class_attribute(kind, name)
        if found is not None:
            return found
        if name in _MODULE_METHODS and kind.is_open is False:
            return (Method((Instance(kind),), name),)
        return UNKNOWN

    def _bound(self, method: FunctionDefinition, kind: ClassDefinition) -> Value:
        """Return a method of an instance of `kind`, bound; for a property, its value."""
        decorators = method.decorators
        if any(one.rpartition(".")[2] in ("property", "cached_property") for one in decorators):
            if any(one.endswith("cached_property") for one in decorators):
                self.note_here("python.cached_property")
            return self.call_function(Function(method, (Instance(kind),)), [], {})
        if "staticmethod" in decorators:
            return (Function(method),)
        if "classmethod" in decorators:
            return (Function(method, (ClassObject(kind),)),)
        return (Function(method, (Instance(kind),)),)

    def _class_attribute(self, kind: ClassDefinition, name: str) -> Value:
        method = kind.method(name)
        if method is not None:
            if "classmethod" in method.decorators:
                return (Function(method, (ClassObject(kind),)),)
            return (Function(method),)
        if name == "apply" and kind.has_base(["torch.autograd.Function"]):
            return (Method((ClassObject(kind),), "apply"),)
        found = self.class_attribute(kind, name)
        return found if found is not None else UNKNOWN

    def _layer_attribute(self, layer: Layer, name: str) -> Value:
        if name == "training":
            return BOOL
        if name in _LAYER_TENSORS:
            return TENSOR if name == "weight" else join(TENSOR, UNKNOWN)
        if name in ("in_features", "out_features", "num_embeddings", "embedding_dim", "p", "eps"):
            return PLAIN
        if name in _MODULE_METHODS:
            return (Method((layer,), name),)
        return UNKNOWN

    def elements_of_module(self, one: object) -> Value:
        """Return the join of the elements that iterating over a module or other object yields."""
        if isinstance(one, Layer) and one.element:
            return one.element
        if isinstance(one, Instance):
            method = one.kind.method("__iter__")
            if method is not None:
                made = self.call_function(Function(method, (one,)), [], {})
                return join_all(s.element for s in made if isinstance(s, Sequence)) or UNKNOWN
        return UNKNOWN
