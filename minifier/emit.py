"""A graph as Python source, written as a person would."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from fullgraph.compiler.compare import TOLERANCES
from fullgraph.compiler.private import naming
from fullgraph.minifier import higher_order, purity, syntax
from fullgraph.minifier.assigned import assigned
from fullgraph.minifier.definitions import definitions
from fullgraph.minifier.literals import imports, literal
from fullgraph.minifier.names import Names
from fullgraph.minifier.program import Program, Unwritable

_INLINE = 48
"""Characters of a value that may stand inside another expression."""
_LINE = 88
"""Characters of one that is all there is to return, or that an item is taken of."""
_CONSTANT = 120
"""Characters of a constant tensor that may stand in the function; others become arguments."""

_ONE_PROCESS = (
    "torch.distributed.init_process_group("
    '"gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)'
)


def source(graph: fx.GraphModule, inputs: Sequence[Any], *, name: str = "f") -> Program:
    """`graph` as a function called `name`, and `inputs` as statements. Raises Unwritable.

    `inputs` belong to the placeholders, in order. Those nobody uses are left out; sizes that are
    inputs are read off the tensor that has them.
    """
    writer = Writer(Shared())
    function = writer.function(graph, name, inputs)
    shared = writer.shared
    values = {**writer.arguments, **shared.constants}
    given = assigned(values)
    parts = (*shared.definitions.values(), syntax.text(function))
    lines = sorted({*shared.imports, *imports(given + parts[-1])})
    return Program(
        "\n\n\n".join(parts),
        given,
        target=name,
        arguments=tuple(values),
        imports=tuple(lines),
        prelude=_ONE_PROCESS if shared.collective else "",
        under=under(),
        outputs=writer.outputs,
        loss=_loss(graph),
        mutates=any(purity.writes(node) for node in purity.every(graph)),
        random=any(purity.draws(node) for node in purity.every(graph)),
        places=writer.places,
        tol=_tolerance(graph),
    )


def _loss(graph: fx.GraphModule) -> str:
    """How to make a number of what the function returns."""
    returned = _returned(graph.graph)
    if not isinstance(returned, tuple | list) or len(returned) != 1:
        return Program.loss
    value = example(returned[0])
    if isinstance(value, torch.Tensor) and value.is_complex():
        return "torch.view_as_real({}).sum()"
    return "{}.sum()" if not isinstance(value, torch.Tensor) or value.dim() else "{}"


def _tolerance(graph: fx.GraphModule) -> float:
    """The least that is right for what the graph returns."""
    values = [example(node) for node in graph.graph.output_node().all_input_nodes]
    dtypes = {value.dtype for value in values if isinstance(value, torch.Tensor)}
    found = [TOLERANCES[d.to_real() if d.is_complex else d] for d in dtypes if d in TOLERANCES]
    return min(found, default=Program.tol)


def under() -> tuple[str, ...]:
    """The modes of this thread, in which the graph is called, as contexts."""
    found = []
    if torch.is_inference_mode_enabled():
        found.append("torch.inference_mode()")
    elif not torch.is_grad_enabled():
        found.append("torch.no_grad()")
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            found.append(f'torch.autocast("{device}", dtype={torch.get_autocast_dtype(device)})')
    return tuple(found)


def example(node: Any) -> Any:
    """What a node gave when its graph was traced; None where that is not known."""
    return (
        None
        if not isinstance(node, fx.Node)
        else node.meta.get("example_value", node.meta.get("val"))
    )


def _returned(graph: fx.Graph) -> Any:
    return next((node.args[0] for node in reversed(graph.nodes) if node.op == "output"), None)


@dataclass
class Shared:
    """What the functions of one script have in common."""

    imports: set[str] = field(default_factory=set)
    definitions: dict[str, str] = field(default_factory=dict)
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    collective: bool = False


@dataclass
class _Block:
    body: list[ast.stmt]
    kind: str
    begins: fx.Node | None = None


class Writer:
    """Writes one function."""

    def __init__(self, shared: Shared, names: Names | None = None) -> None:
        self.shared = shared
        self.names = names or Names()
        self.arguments: dict[str, Any] = {}
        """By name, what the function is to be called with."""
        self.places: dict[str, str] = {}
        """By "input[2]": the argument's name."""
        self.outputs: int | None = None
        self._values: dict[fx.Node, ast.expr] = {}
        self._pending: dict[fx.Node, ast.expr] = {}
        """Values that are used once and stand in no statement yet."""
        self._done: set[fx.Node] = set()
        self._blocks = [_Block([], "function")]
        self._start = self._grad = torch.is_grad_enabled()
        """Whether gradients are on, at the beginning and now."""
        self._submodules: dict[fx.Node, tuple[str, fx.GraphModule]] = {}
        self._defined: dict[str, str] = {}

    # --- the function ---

    def function(
        self, module: fx.GraphModule, name: str, inputs: Sequence[Any] | None = None
    ) -> ast.FunctionDef:
        """The definition of `module`'s graph. Without `inputs` it takes and returns just what the
        graph does."""
        graph, self._module = module.graph, module
        placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        names = list(self._placeholders(placeholders, inputs))
        for node in graph.nodes:
            if node.op not in ("placeholder", "output") and node not in self._done:
                self._node(node)
        self._return(_returned(graph), whole=inputs is None)
        names += self.shared.constants if inputs is not None else []
        body = _pruned(self._blocks[0].body) or [ast.Pass()]
        arguments = ast.arguments([], [ast.arg(each) for each in names], None, [], [], None, [])
        return ast.FunctionDef(name, arguments, body, [], type_params=[])

    def _placeholders(
        self, nodes: Sequence[fx.Node], inputs: Sequence[Any] | None
    ) -> Iterator[str]:
        if inputs is not None and len(inputs) != len(nodes):
            raise Unwritable(f"The graph takes {len(nodes)} inputs, and there are {len(inputs)}.")
        sizes = dict(_sizes(nodes))
        bound: list[tuple[fx.Node, fx.Node, int]] = []
        for position, node in enumerate(nodes):
            if inputs is not None and not node.users and str(example(node)) not in sizes:
                continue
            if inputs is not None and (size := sizes.get(str(example(node)))) is not None:
                bound.append((node, *size))
                continue
            name = self.names.argument(node)
            self._values[node] = syntax.name(name)
            if inputs is not None:
                self.arguments[name] = inputs[position]
                self.places[f"input[{position}]"] = name
            yield name
        for node, tensor, axis in bound:
            if tensor in self._values:
                shape = ast.Attribute(self._values[tensor], "shape", ast.Load())
                self._values[node] = ast.Subscript(shape, ast.Constant(axis), ast.Load())

    def _return(self, returned: Any, whole: bool) -> None:
        while len(self._blocks) > 1:
            self._blocks.pop()
        single = isinstance(returned, tuple | list) and len(returned) == 1 and not whole
        self.outputs = len(returned) if isinstance(returned, tuple | list) else None
        made = self.value(returned[0] if single else returned)
        if isinstance(made, ast.List) and not whole:
            made = ast.Tuple(made.elts, ast.Load())
        self._flush()
        self._add(ast.Return(made))

    # --- statements ---

    def _add(self, statement: ast.stmt) -> None:
        self._blocks[-1].body.append(statement)

    def _flush(self) -> None:
        """Give each value that is still waiting a name, in order."""
        for node in list(self._pending):
            if node in self._pending:
                self._assign(node, self._pending.pop(node))

    def _assign(self, node: fx.Node, made: ast.expr) -> None:
        name = self.names.local(node)
        self._values[node] = syntax.name(name)
        self._add(ast.Assign([ast.Name(name, ast.Store())], made))

    def _node(self, node: fx.Node) -> None:
        if node.op == "get_attr":
            self._attribute(node)
            return
        if node.op == "call_module":
            raise Unwritable(
                f"The graph calls module {node.target}; only functions can be written."
            )
        if self._region(node) or self._in_place(node) or self._unpacked(node):
            return
        self.shared.collective |= naming.is_collective(node.target)
        made = self._expression(node)
        if purity.orders(node):
            self._flush()
        if not node.users:
            self._add(ast.Expr(made))
        elif self._may_wait(node, made):
            self._pending[node] = made
        else:
            self._assign(node, made)

    def _may_wait(self, node: fx.Node, made: ast.expr) -> bool:
        if len(node.users) != 1:
            return False
        user = next(iter(node.users))
        if sum(used is node for used in _used(user)) != 1:
            return False
        if purity.orders(node) and user is not node.next:
            return False
        limit = _LINE if user.op == "output" or user.target is operator.getitem else _INLINE
        return len(syntax.text(made)) <= limit

    def _in_place(self, node: fx.Node) -> bool:
        """Statements: `x[0] = y`, `x += y`, `x.add_(y)`."""
        if node.target is operator.setitem:
            self._set_item(node)
            return True
        tensor = isinstance(example(node), torch.Tensor) or example(node) is None
        kind = syntax.IN_PLACE.get(getattr(node.target, "__name__", ""))
        if kind is not None and getattr(node.target, "__module__", "") == "_operator":
            first, second = node.args
            if tensor and isinstance(first, fx.Node):
                right = self.value(second)
                target = self._named(first)
                self._flush()
                store = ast.Name(target.id, ast.Store())
                self._add(ast.AugAssign(store, kind(), right))
                self._values[node] = target
                return True
            self._values[node] = ast.BinOp(self.value(first), kind(), self.value(second))
            return True
        if node.op == "call_method" and str(node.target).endswith("_") and tensor:
            if str(node.target).startswith("__") or not isinstance(node.args[0], fx.Node):
                return False
            if node.users:
                self._named(node.args[0])
            receiver = self.value(node.args[0])
            made = self._method(node, receiver)
            self._flush()
            self._add(ast.Expr(made))
            self._values[node] = receiver
            return True
        return False

    def _set_item(self, node: fx.Node) -> None:
        target, index, new = node.args
        place = ast.Subscript(self.value(target), self.value(index), ast.Store())
        right = self.value(new)
        self._flush()
        updated = _updated(node)
        if updated is not None and isinstance(right, ast.Name):
            body = self._blocks[-1].body
            if _is_update(body[-2:], place, right):
                step = body.pop()
                body.pop()
                assert isinstance(step, ast.AugAssign)
                self._add(ast.AugAssign(place, step.op, step.value))
                return
        self._add(ast.Assign([place], right))

    def _named(self, node: fx.Node) -> ast.Name:
        """The name of a value, which gets one if it has none."""
        if node in self._pending:
            self._assign(node, self._pending.pop(node))
        made = self._values[node]
        if not isinstance(made, ast.Name):
            self._assign(node, made)
            made = self._values[node]
        assert isinstance(made, ast.Name)
        return made

    def _unpacked(self, node: fx.Node) -> bool:
        """`a, b = x.chunk(2)`."""
        items = list(node.users)
        parts = example(node)
        if not isinstance(parts, tuple | list) or len(items) < 2:
            return False
        if any(
            item.target is not operator.getitem or type(item.args[1]) is not int for item in items
        ):
            return False
        places = {item.args[1]: item for item in items}
        if len(places) != len(items) or min(places) < 0 or max(places) >= len(parts):  # type: ignore[type-var]
            return False
        made = self._expression(node)
        self._flush()
        targets = []
        for place in range(len(parts)):
            item = places.get(place)
            name = "_" if item is None else self.names.local(item)
            targets.append(ast.Name(name, ast.Store()))
            if item is not None:
                self._values[item] = syntax.name(name)
                self._done.add(item)
        self._add(ast.Assign([ast.Tuple(list(targets), ast.Store())], made))
        return True

    # --- regions ---

    def _region(self, node: fx.Node) -> bool:
        if naming.is_sdpa_backend(node.target):
            self._values[node] = syntax.path(f"torch.nn.attention.SDPBackend.{node.args[0]}")
            return True
        found = naming.region(node.target)
        if found is None:
            return False
        self._flush()
        if found.kind == "end":
            self._leave(node.args[0])
        elif found.kind == "grad":
            self._set_grad(bool(node.args[0]))
        elif found.kind == "sdpa":
            self._sdpa(node)
        else:
            self._enter(node, found.kind, _context(found.kind, node, self.value))
        return True

    def _enter(self, node: fx.Node | None, kind: str, context: ast.expr) -> None:
        body: list[ast.stmt] = []
        self._add(ast.With([ast.withitem(context)], body))
        self._blocks.append(_Block(body, kind, node))

    def _leave(self, begins: Any) -> None:
        """End the block that `begins` began; a gradient mode inside goes on after it."""
        if all(block.begins is not begins for block in self._blocks):
            return
        while self._blocks.pop().begins is not begins:
            pass
        inside = any(block.kind == "grad" for block in self._blocks)
        if self._grad != self._start and not inside:
            self._enter(None, "grad", _grad_context(self._grad))

    def _set_grad(self, on: bool) -> None:
        if on == self._grad:
            return
        self._grad = on
        if self._blocks[-1].kind == "grad":
            self._blocks.pop()
        if on != self._start:
            self._enter(None, "grad", _grad_context(on))

    def _sdpa(self, node: fx.Node) -> None:
        if self._blocks[-1].kind == "sdpa":
            self._blocks.pop()
            return
        context = syntax.call(
            syntax.path("torch.nn.attention.sdpa_kernel"), [self.value(node.args[0])], {}
        )
        self._enter(node, "sdpa", context)

    # --- expressions ---

    def value(self, thing: Any) -> ast.expr:
        """An argument as an expression. Raises Unwritable."""
        return syntax.value(thing, self._of)

    def _of(self, thing: Any) -> ast.expr | None:
        if isinstance(thing, torch.Tensor):
            return syntax.expression(literal(thing))
        if not isinstance(thing, fx.Node):
            return None
        if thing in self._pending:
            return self._pending.pop(thing)
        if thing in self._submodules:
            return syntax.name(self._nested(thing))
        if thing not in self._values:
            raise Unwritable(f"{thing} is used before the graph gives it a value.")
        return self._values[thing]

    def _expression(self, node: fx.Node) -> ast.expr:
        if node.op == "call_method":
            return self._method(node, self.value(node.args[0]))
        target: Any = node.target
        if naming.is_higher_order(target):
            made = higher_order.written(node, self)
            if made is not None:
                return made
        wrapped = naming.numpy_call(target)
        if wrapped is not None:
            return self._numpy(node, wrapped)
        if naming.is_assertion(target):
            return syntax.call(syntax.path("torch._check"), [self.value(node.args[0])], {})
        args = [self.value(arg) for arg in node.args]
        kwargs = {key: self.value(arg) for key, arg in node.kwargs.items()}
        if getattr(target, "__module__", "") == "_operator" and not kwargs:
            made = syntax.operation(target, args)
            if made is not None:
                return made
        if target is getattr and len(args) == 2 and str(node.args[1]).isidentifier():
            return ast.Attribute(args[0], str(node.args[1]), ast.Load())
        return syntax.call(self._callee(target), args, kwargs)

    def _callee(self, target: Any) -> ast.expr:
        foreign = naming.foreign_op(target)
        if foreign is not None:
            texts, lines = definitions(foreign)
            self.shared.definitions.update(texts)
            self.shared.imports.update(lines)
        made = syntax.constant(target)
        dotted = syntax.text(made)
        module = naming.needs_import(dotted)
        if module is not None:
            self.shared.imports.add(f"import {module}")
        if dotted.startswith(("math.", "operator.")):
            self.shared.imports.add(f"import {dotted.partition('.')[0]}")
        return made

    def _method(self, node: fx.Node, receiver: ast.expr) -> ast.expr:
        args = [self.value(arg) for arg in node.args[1:]]
        kwargs = {key: self.value(arg) for key, arg in node.kwargs.items()}
        if isinstance(receiver, ast.Constant):  # 2.float() is no Python
            raise Unwritable(f"A method {node.target} of a number cannot be written.")
        return syntax.call(ast.Attribute(receiver, str(node.target), ast.Load()), args, kwargs)

    def _numpy(self, node: fx.Node, wrapped: naming.NumpyCall) -> ast.expr:
        def array(thing: Any) -> ast.expr:
            made = self.value(thing)
            is_tensor = isinstance(thing, fx.Node) and naming.numpy_call(thing.target) is None
            if not is_tensor or not isinstance(example(thing), torch.Tensor):
                return made
            return syntax.call(ast.Attribute(made, "numpy", ast.Load()), [], {})

        args = [array(arg) for arg in node.args]
        kwargs = {key: array(arg) for key, arg in node.kwargs.items()}
        if wrapped.kind == "attribute":
            return ast.Attribute(args[0], str(node.args[1]), ast.Load())
        if wrapped.kind == "operator" and wrapped.operator is not None:
            made = syntax.operation(wrapped.operator, args)
            if made is not None:
                return made
        if wrapped.kind == "method":
            return syntax.call(ast.Attribute(args[0], wrapped.name, ast.Load()), args[1:], kwargs)
        self.shared.imports.add("import numpy as np")
        return syntax.call(syntax.path(f"np.{wrapped.name}"), args, kwargs)

    # --- attributes ---

    def _attribute(self, node: fx.Node) -> None:
        thing: Any = self._module
        for part in str(node.target).split("."):
            thing = getattr(thing, part)
        if isinstance(thing, fx.GraphModule):
            self._submodules[node] = str(node.target), thing
        elif isinstance(thing, torch.Tensor):
            self._constant(node, thing)
        else:
            self._values[node] = self.value(thing)

    def _constant(self, node: fx.Node, tensor: torch.Tensor) -> None:
        known = next((n for n, t in self.shared.constants.items() if t is tensor), None)
        if known is not None:
            self._values[node] = syntax.name(known)
            return
        text = literal(tensor)
        if len(text) <= _CONSTANT and not tensor.requires_grad:
            self._assign(node, syntax.expression(text))
            self.shared.imports.update(imports(text))
            return
        if self._blocks[0].kind != "function":
            raise Unwritable(f"The constant {node.target} of a nested graph is too large to write.")
        name = self.names.local(node)
        self.shared.constants[name] = tensor
        self._values[node] = syntax.name(name)

    def submodule(self, node: Any) -> fx.GraphModule | None:
        """The graph that a node stands for."""
        return self._submodules[node][1] if node in self._submodules else None

    def _nested(self, node: fx.Node) -> str:
        """The name of a nested graph's function, which is defined if it is not yet."""
        target, module = self._submodules[node]
        if target not in self._defined:
            name = self.names.other(_function_name(target))
            self._defined[target] = name
            self._add(self.apart(module, name))
        return self._defined[target]

    def apart(self, module: fx.GraphModule, name: str) -> ast.FunctionDef:
        """A nested graph as a function, which is not put anywhere."""
        return Writer(self.shared).function(module, name)

    def define(self, statement: ast.stmt) -> None:
        """Put a definition before the statement that is being written."""
        self._add(statement)


def _function_name(target: str) -> str:
    """`true_fn` for `cond_true_0`."""
    for part, name in (("true", "true_fn"), ("false", "false_fn"), ("cond_fn", "cond_fn")):
        if part in target:
            return name
    return "body" if "body" in target or "wrap" in target or "subgraph" in target else target


def _sizes(nodes: Sequence[fx.Node]) -> Iterator[tuple[str, tuple[fx.Node, int]]]:
    """By a symbol: an input that has it as the size of an axis."""
    for node in reversed(nodes):
        value = example(node)
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            for axis, size in reversed(list(enumerate(value.shape))):
                if isinstance(size, torch.SymInt) and str(size).isidentifier():
                    yield str(size), (node, axis)


def _used(node: fx.Node) -> list[fx.Node]:
    """The nodes among a node's arguments, each as often as it stands there."""
    found: list[fx.Node] = []
    fx.map_arg((node.args, node.kwargs), lambda used: found.append(used))
    return found


def _updated(node: fx.Node) -> fx.Node | None:
    """The in-place node whose result is put back where it was taken from: `x[i] += y`."""
    target, index, new = node.args
    if not isinstance(new, fx.Node) or len(new.users) != 1 or new.op != "call_function":
        return None
    taken = new.args[0] if new.args else None
    if not isinstance(taken, fx.Node) or taken.target is not operator.getitem:
        return None
    same = taken.args[0] is target and repr(taken.args[1]) == repr(index)
    return new if same and len(taken.users) == 1 else None


def _is_update(body: Sequence[ast.stmt], place: ast.Subscript, name: ast.Name) -> bool:
    """Whether the last two statements are `name = place` and `name += …`."""
    match body:
        case [
            ast.Assign(targets=[ast.Name(id=taken)], value=ast.Subscript() as source),
            ast.AugAssign(target=ast.Name(id=changed)),
        ]:
            same = ast.dump(source.value) == ast.dump(place.value)
            same &= ast.dump(source.slice) == ast.dump(place.slice)
            return same and taken == changed == name.id
    return False


def _context(kind: str, node: fx.Node, value: Any) -> ast.expr:
    if kind == "inference":
        return syntax.call(syntax.path("torch.inference_mode"), [], {})
    device, dtype, enabled, cache = (*node.args, None, None, None)[:4]
    kwargs: Mapping[str, Any] = {"dtype": dtype, "enabled": enabled, "cache_enabled": cache}
    told = {
        key: value(arg)
        for key, arg in kwargs.items()
        if arg is not None
        and (key, arg) != ("enabled", True)
        and (key, arg) != ("cache_enabled", True)
    }
    return syntax.call(syntax.path("torch.autocast"), [value(device)], told)


def _grad_context(on: bool | None) -> ast.expr:
    return syntax.call(syntax.path("torch.enable_grad" if on else "torch.no_grad"), [], {})


def _pruned(body: list[ast.stmt]) -> list[ast.stmt]:
    """Without blocks in which nothing happens."""
    kept = []
    for statement in body:
        if isinstance(statement, ast.With):
            statement.body = _pruned(statement.body)
            if not statement.body:
                continue
        kept.append(statement)
    return kept
