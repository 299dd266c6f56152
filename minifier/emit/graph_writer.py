"""Write a graph as the definition of a Python function."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx

from fullgraph.compiler.private import (
    is_collective,
    is_higher_order_op,
    is_scalar_assertion,
    is_sdpa_backend,
    numpy_call,
    region_call,
)
from fullgraph.minifier.emit import higher_order, numpy_calls, syntax
from fullgraph.minifier.emit.blocks import Blocks
from fullgraph.minifier.emit.literals import imports, literal
from fullgraph.minifier.emit.names import Names
from fullgraph.minifier.emit.node_writer import NodeWriter, Shared
from fullgraph.minifier.emit.program_text import Unwritable
from fullgraph.minifier.graphs import KnownValues, find_size_inputs, is_barrier, is_python_float

_INLINE = 48
"""Maximum number of characters of a value that is written inside another expression."""
_LINE = 80
"""Maximum number of characters of a returned value, or of a value that is subscripted."""
_CONSTANT = 120
"""Maximum number of characters of a constant tensor that is written inside the function."""


class Writer(NodeWriter):
    """Writer of the syntax tree of one Python function that computes an FX graph."""

    def __init__(self, shared: Shared, knowledge: KnownValues | None = None) -> None:
        self.shared = shared
        self.names = Names()
        self.knowledge = knowledge or KnownValues()
        self.arguments: dict[str, object] = {}
        """The values to call the function with, by parameter."""
        self.places: dict[str, str] = {}
        """The parameter of each input, by the input's name in results: "input[2]"."""
        self.outputs: int | None = None
        self._values: dict[fx.Node, ast.expr] = {}
        self._pending: dict[fx.Node, ast.expr] = {}
        """Expressions of values that are used once and not yet written in a statement."""
        self._done: set[fx.Node] = set()
        self._blocks = Blocks()
        self._submodules: dict[fx.Node, tuple[str, fx.GraphModule]] = {}
        self._defined: dict[str, str] = {}

    # --- the function ---

    def function(
        self, module: fx.GraphModule, name: str, inputs: Sequence[object] | None = None
    ) -> ast.FunctionDef:
        """Return the function definition of a graph.

        With `inputs`, sizes are read from tensors, and a single result is returned without its
        tuple. Without `inputs`, the function takes and returns exactly what the graph does.
        """
        graph, self._module = module.graph, module
        self._nested_in = inputs is None
        placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        names = list(self._write_placeholders(placeholders, inputs))
        for node in graph.nodes:
            if node.op not in ("placeholder", "output") and node not in self._done:
                self._write_node(node)
        self._write_return(graph.output_node().args[0], whole=inputs is None)
        names += self.shared.constants if inputs is not None else []
        return syntax.function(name, names, self._blocks.body())

    def _write_placeholders(
        self, nodes: Sequence[fx.Node], inputs: Sequence[Any] | None
    ) -> Iterator[str]:
        """Yield the parameters; with `inputs`, a size is read from a tensor instead of passed."""
        if inputs is not None and len(inputs) != len(nodes):
            raise Unwritable(f"The graph takes {len(nodes)} inputs, and there are {len(inputs)}.")
        read_off = dict(find_size_inputs(nodes, inputs)) if inputs is not None else {}
        whose = {tensor for tensor, _ in read_off.values()}
        for position, node in enumerate(nodes):
            if node in read_off or (inputs is not None and not node.users and node not in whose):
                continue
            name = self.names.argument(node)
            self._values[node] = syntax.name(name)
            if inputs is not None:
                value = inputs[position]
                if is_python_float(node, value):
                    self._values.update(dict.fromkeys(node.users, self._values[node]))
                    self._done.update(node.users)
                    value = value.item()
                self.arguments[name] = value
                self.places[f"input[{position}]"] = name
            yield name
        for node, (tensor, axis) in read_off.items():
            shape = ast.Attribute(self._values[tensor], "shape", ast.Load())
            self._values[node] = ast.Subscript(shape, ast.Constant(axis), ast.Load())

    def _write_return(self, returned: Any, whole: bool) -> None:
        """Write the return statement; unless `whole`, return a single result without its tuple."""
        if self._blocks.nested:
            self._assign_pending()
            self._blocks.close()
        single = isinstance(returned, tuple | list) and len(returned) == 1 and not whole
        self.outputs = len(returned) if isinstance(returned, tuple | list) else None
        made = self.value(returned[0] if single else returned)
        if isinstance(made, ast.List) and not whole:
            made = ast.Tuple(made.elts, ast.Load())
        self._assign_pending()
        self._blocks.add(ast.Return(made))

    # --- statements ---

    def _assign_pending(self) -> None:
        """Assign every pending value to a name, in order."""
        for node in list(self._pending):
            if node in self._pending:
                self._write_assignment(node, self._pending.pop(node))

    def _write_assignment(self, node: fx.Node, value: ast.expr) -> None:
        """Assign the expression `value` to a new variable of the node."""
        name = self.names.local(node)
        self._values[node] = syntax.name(name)
        self._blocks.add(ast.Assign([ast.Name(name, ast.Store())], value))

    def _write_node(self, node: fx.Node) -> None:
        """Write a node as a statement, or keep its expression for the only node that uses it."""
        if node.op == "get_attr":
            self._bind_attribute(node)
            return
        if node.op == "call_module":
            raise Unwritable(
                f"The graph calls module {node.target}; only functions can be written."
            )
        if is_sdpa_backend(node.target):
            self._values[node] = syntax.path(f"torch.nn.attention.SDPBackend.{node.args[0]}")
            return
        region = region_call(node.target)
        if region is not None:
            self._assign_pending()
            self._blocks.switch(node, region, self.value)
            return
        if self._write_in_place(node) or self._write_unpacking(node):
            return
        self.shared.collective |= is_collective(node.target)
        made = self._short_expression(node)
        if is_barrier(node):
            self._assign_pending()
        if not node.users:
            self._blocks.add(ast.Expr(made))
        elif self._is_inlinable(node, made):
            self._pending[node] = made
        else:
            self._write_assignment(node, made)

    def _short_expression(self, node: fx.Node) -> ast.expr:
        """Return a node's expression; assign arguments first that make its line too long."""
        inside = {
            used: self._pending[used] for used in _argument_nodes(node) if used in self._pending
        }
        made = self._call_expression(node)
        if not inside or is_higher_order_op(node.target) or len(syntax.text(made)) <= _LINE:
            return made
        self._pending.update(inside)
        longest = max(inside, key=lambda used: len(syntax.text(inside[used])))
        self._write_assignment(longest, self._pending.pop(longest))
        return self._short_expression(node)

    def _is_inlinable(self, node: fx.Node, value: ast.expr) -> bool:
        """Return whether a node's expression `value` can be written inside its only user's."""
        if len(node.users) != 1:
            return False
        user = next(iter(node.users))
        if sum(used is node for used in _argument_nodes(user)) != 1:
            return False
        if is_barrier(node) and user is not node.next:
            return False
        limit = _LINE if user.op == "output" or user.target is operator.getitem else _INLINE
        return len(syntax.text(value)) <= limit

    def _write_in_place(self, node: fx.Node) -> bool:
        """Write a node that is an in-place update, and return True; return False for others."""
        if node.target is operator.setitem:
            self._write_set_item(node)
            return True
        tensor = (
            isinstance(self.knowledge.of(node), torch.Tensor) or self.knowledge.of(node) is None
        )
        kind = syntax.IN_PLACE.get(getattr(node.target, "__name__", ""))
        if kind is not None and getattr(node.target, "__module__", "") == "_operator":
            first, second = node.args
            if tensor and isinstance(first, fx.Node):
                right = self.value(second)
                target = self._name_of(first)
                self._assign_pending()
                store = ast.Name(target.id, ast.Store())
                self._blocks.add(ast.AugAssign(store, kind(), right))
                self._values[node] = target
                return True
            self._values[node] = ast.BinOp(self.value(first), kind(), self.value(second))
            return True
        if node.op == "call_method" and str(node.target).endswith("_") and tensor:
            if str(node.target).startswith("__") or not isinstance(node.args[0], fx.Node):
                return False
            if node.users:
                self._name_of(node.args[0])
            receiver = self.value(node.args[0])
            made = self._method_call(node, receiver)
            self._assign_pending()
            self._blocks.add(ast.Expr(made))
            self._values[node] = receiver
            return True
        return False

    def _write_set_item(self, node: fx.Node) -> None:
        """Write `x[i] = v`; `x[i] += …` if the last two statements computed `v` from `x[i]`."""
        target, index, new = node.args
        place = ast.Subscript(self.value(target), self.value(index), ast.Store())
        right = self.value(new)
        self._assign_pending()
        body = self._blocks.open
        once = isinstance(new, fx.Node) and len(new.users) == 1
        if once and isinstance(right, ast.Name) and syntax.is_update(body[-2:], place, right):
            _, step = body.pop(-2), body.pop()
            assert isinstance(step, ast.AugAssign)
            self._blocks.add(ast.AugAssign(place, step.op, step.value))
        else:
            self._blocks.add(ast.Assign([place], right))

    def _name_of(self, node: fx.Node) -> ast.Name:
        """Return the variable that holds a node's value; assign one if there is none."""
        if node in self._pending:
            self._write_assignment(node, self._pending.pop(node))
        made = self._values[node]
        if not isinstance(made, ast.Name):
            self._write_assignment(node, made)
            made = self._values[node]
        assert isinstance(made, ast.Name)
        return made

    def _write_unpacking(self, node: fx.Node) -> bool:
        """Write `a, b = x.chunk(2)` and return True, if all uses of a node take its items."""
        items = list(node.users)
        parts = self.knowledge.of(node)
        if not isinstance(parts, tuple | list) or len(items) < 2:
            return False
        if any(
            item.target is not operator.getitem or type(item.args[1]) is not int for item in items
        ):
            return False
        places: dict[int, fx.Node] = {item.args[1]: item for item in items}  # type: ignore[misc]
        if len(places) != len(items) or not set(places) <= set(range(len(parts))):
            return False
        made = self._call_expression(node)
        self._assign_pending()
        targets = []
        for place in range(len(parts)):
            item = places.get(place)
            name = "_" if item is None else self.names.local(item)
            targets.append(ast.Name(name, ast.Store()))
            if item is not None:
                self._values[item] = syntax.name(name)
                self._done.add(item)
        self._blocks.add(ast.Assign([ast.Tuple(list(targets), ast.Store())], made))
        return True

    # --- expressions ---

    def value(self, thing: Any) -> ast.expr:
        """Return an argument of a node as an expression. Raises Unwritable."""
        return syntax.value(thing, self._known_expression)

    def _known_expression(self, thing: object) -> ast.expr | None:
        """Return the expression of a tensor or node; None for other arguments."""
        if isinstance(thing, torch.Tensor):
            return syntax.expression(literal(thing))
        if not isinstance(thing, fx.Node):
            return None
        if thing in self._pending:
            return self._pending.pop(thing)
        if thing in self._submodules:
            return syntax.name(self._nested_function(thing))
        if thing not in self._values:
            raise Unwritable(f"{thing} is used before the graph gives it a value.")
        return self._values[thing]

    def _call_expression(self, node: fx.Node) -> ast.expr:
        """Return the expression of the call that a node makes."""
        if node.op == "call_method":
            made = self.value(node.args[0])
            return made if numpy_calls.is_to_numpy(node) else self._method_call(node, made)
        target: Any = node.target
        if is_higher_order_op(target):
            public = higher_order.write_higher_order(node, self)
            if public is not None:
                return public
        wrapped = numpy_call(target)
        if wrapped is not None:
            return numpy_calls.write_numpy_call(node, wrapped, self)
        if is_scalar_assertion(target):
            return syntax.call(syntax.path("torch._check"), [self.value(node.args[0])], {})
        args = [self.value(arg) for arg in node.args]
        kwargs = {key: self.value(arg) for key, arg in node.kwargs.items()}
        if getattr(target, "__module__", "") == "_operator" and not kwargs:
            operation = syntax.operation(target, args)
            if operation is not None:
                return operation
        if target is getattr and len(args) == 2 and str(node.args[1]).isidentifier():
            return ast.Attribute(args[0], str(node.args[1]), ast.Load())
        return syntax.call(self.shared.callee(target), args, kwargs)

    def _method_call(self, node: fx.Node, receiver: ast.expr) -> ast.expr:
        """Return the method call of a node, on the expression `receiver`."""
        args = [self.value(arg) for arg in node.args[1:]]
        kwargs = {key: self.value(arg) for key, arg in node.kwargs.items()}
        if isinstance(receiver, ast.Constant):  # 2.float() is no Python
            raise Unwritable(f"A method {node.target} of a number cannot be written.")
        return syntax.call(ast.Attribute(receiver, str(node.target), ast.Load()), args, kwargs)

    # --- attributes ---

    def _bind_attribute(self, node: fx.Node) -> None:
        """Record the expression of a `get_attr` node: a submodule, a constant or a literal."""
        thing: object = self._module
        for part in str(node.target).split("."):
            thing = getattr(thing, part)
        if isinstance(thing, fx.GraphModule):
            self._submodules[node] = str(node.target), thing
        elif isinstance(thing, torch.Tensor):
            self._bind_constant(node, thing)
        else:
            self._values[node] = self.value(thing)

    def _bind_constant(self, node: fx.Node, tensor: torch.Tensor) -> None:
        """Write a constant tensor as a literal, or make it a global of the script if it is long."""
        known = next((n for n, t in self.shared.constants.items() if t is tensor), None)
        if known is not None:
            self._values[node] = syntax.name(known)
            return
        text = literal(tensor)
        if len(text) <= _CONSTANT and not tensor.requires_grad:
            self._write_assignment(node, syntax.expression(text))
            self.shared.imports.update(imports(text))
            return
        if self._nested_in:
            raise Unwritable(f"The constant {node.target} of a nested graph is too large to write.")
        name = self.names.local(node)
        self.shared.constants[name] = tensor
        self._values[node] = syntax.name(name)

    def submodule(self, node: Any) -> fx.GraphModule | None:
        """Return the nested graph that a node refers to; None if it refers to none."""
        found = self._submodules.get(node)
        return None if found is None else found[1]

    def _nested_function(self, node: fx.Node) -> str:
        """Return the name of a nested graph's function; define it on first use."""
        target, module = self._submodules[node]
        if target not in self._defined:
            name = self.names.nested(target)
            self._defined[target] = name
            self._blocks.add(self.standalone_function(module, name))
        return self._defined[target]

    def standalone_function(self, module: fx.GraphModule, name: str) -> ast.FunctionDef:
        """Return the function of a nested graph, for the caller to place."""
        return Writer(self.shared).function(module, name)

    def define(self, statement: ast.stmt) -> None:
        """Add a definition before the statement that is being written."""
        self._blocks.add(statement)


def _argument_nodes(node: fx.Node) -> list[fx.Node]:
    """Return the nodes in a node's arguments; a node that occurs twice is listed twice."""
    found: list[fx.Node] = []
    fx.map_arg((node.args, node.kwargs), lambda used: found.append(used))
    return found
