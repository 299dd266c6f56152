"""Facts about the code around a graph break on which its category and advice depend."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fullgraph.compiler.sources import FunctionNode, Source
from fullgraph.diagnose.taxonomy.flow import COMPUTED, origins_of, uses_of, what_is_read

_EXITS: tuple[tuple[type[ast.stmt], str], ...] = (
    (ast.Break, "break"),
    (ast.Continue, "continue"),
    (ast.Return, "return"),
    (ast.Raise, "raise"),
)
_OUTER = re.compile(r"((?:\w+\.)+(?:cond|while_loop|vmap|scan|map)|\b(?:\w+\.)*checkpoint)\(")
"""Functions of torch that trace a function given to them into a subgraph."""
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
TENSOR = re.compile(r"[a-z]+\d*\[")
"""How the text of a tensor's value begins: "f32[3, 4]"."""
NUMPY_VALUE = re.compile(r"(ndarray|u?int\d+|float\d+) ")
"""How the text of a value of NumPy begins: "ndarray int64[4]", "int64 3"."""
TRACED = re.compile(f"{TENSOR.pattern}|{NUMPY_VALUE.pattern}")
"""How the text of a value begins that Dynamo traces as a tensor: that of one, or of NumPy."""


@dataclass(frozen=True)
class Usage:
    """An expression that broke the graph, its statement, and what is known about both."""

    expression: str
    statement: str = ""
    value: str | None = None
    """What the expression was in eager: "bool[] True", "f32[3, 4]", "7.25"; None if not seen."""
    context: str = ""
    """What Dynamo says about the break."""
    callers: tuple[str, ...] = ()
    """The user's expressions on the stack above the break, innermost first."""
    below: str = ""
    """The code of torch or Python, called by the expression, that broke: "`not valid.all()` in
    torch/distributions/distribution.py:71"; "" if the user's own code broke."""
    exit: str = ""
    """The exit at the end of a branch whose condition the expression is: "break", "continue",
    "return", "return None", "raise", "handled raise" if the function catches it; "" if there is
    none."""
    exits_if: bool | None = True
    """The truth of the expression with which that exit is taken; None if it does not say that."""
    branch_writes: bool = False
    """Whether a branch on the expression writes into tensors or objects, or calls for effect."""
    loop: str = ""
    """The innermost loop around the expression: "for", "while", "while True" or ""."""
    is_iterated: bool = False
    """Whether a `for` loop iterates over the expression."""
    is_indexed_by_loop: bool = False
    """Whether the expression is a subscript with a variable of a `for` loop in its index."""
    is_handled: bool = False
    """Whether a `try` of the same function catches what the expression raises."""
    is_manager: bool = False
    """Whether a `with` enters the expression."""
    is_target: bool = False
    """Whether the expression is an attribute that is assigned to."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """What its subexpressions were in eager, by their code."""
    reads: str = ""
    """"nothing", "inputs" or "computed", as `what_is_read` says; "" if unknown."""
    uses: frozenset[str] = frozenset()
    """What is done with the value, as `uses_of` says."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """The code that is assigned to a variable of the expression, if only one is."""

    def within(self, file: Source, node: ast.AST, is_entry: bool = True) -> Usage:
        """Return the usage with facts about the syntax around `node` in `file`.

        `is_entry` says whether the function around it is the one that is compiled.
        """
        around = [node, *file.ancestors(node)]
        statement = next((one for one in around if isinstance(one, ast.stmt)), None)
        above = (i for i, one in enumerate(around) if isinstance(one, FunctionNode))
        inside = around[: next(above, len(around))]
        function = next((one for one in around if isinstance(one, FunctionNode)), None)
        exit, side = _exit_of(statement, inside) if node is not statement else ("", True)
        items = statement.items if isinstance(statement, ast.With | ast.AsyncWith) else ()
        return replace(
            self,
            exit=exit,
            exits_if=_truth_for(side, inside, statement) if exit else True,
            branch_writes=_branch_writes(statement, around),
            loop=_loop_of(inside),
            is_iterated=isinstance(statement, ast.For) and statement.iter in around,
            is_indexed_by_loop=_is_indexed_by_loop(node, inside),
            is_handled=statement in inside and handles(inside, statement),
            is_manager=any(item.context_expr is node for item in items),
            is_target=isinstance(getattr(node, "ctx", None), ast.Store),
            reads=what_is_read(node, function, file, is_entry) if function else "",
            uses=uses_of(node, function, file) if function else frozenset(),
            origins=origins_of(node, function) if function else {},
        )

    @property
    def is_computed(self) -> bool:
        """Whether the expression reads what the compiled function computes."""
        return self.reads == COMPUTED

    @property
    def is_held(self) -> bool:
        """Whether Dynamo holds a Python number of the expression as a tensor: a random one."""
        return "UnspecializedPythonVariable" in self.context

    @property
    def is_in_hook(self) -> bool:
        """Whether the expression runs inside a hook of a tensor's gradient."""
        return any(".register_hook(" in caller for caller in self.callers)

    @property
    def outer_function(self) -> str:
        """The torch function that traces the code as a subgraph: "torch.cond"; "" if none."""
        found = next((one for text in self.callers if (one := _OUTER.search(text))), None)
        return found[1] if found else ""

    @property
    def is_numpy(self) -> bool:
        """Whether Dynamo traced the expression's value as a NumPy array."""
        return "NumpyNdarrayVariable" in self.context

    @property
    def is_of_numpy(self) -> bool:
        """Whether the expression calls a function of NumPy."""
        return bool(re.match(r"(np|numpy)\.", self.expression))

    @property
    def is_made_on_host(self) -> bool:
        """Whether the expression reads nothing but torch, and names no device: it is on the CPU."""
        node = parse(self.expression)
        names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} if node else set()
        return names == {"torch"} and not re.search("device|cuda", self.expression)

    @property
    def is_tensor(self) -> bool:
        """Whether the expression's value was a tensor in eager."""
        return bool(TENSOR.match(self.value or ""))

    @property
    def is_tensors(self) -> bool:
        """Whether the expression's value was a tensor or array in eager, or a container of some."""
        return bool(re.search(r"(\A|[ (])[a-z]+\d*\[", self.value or ""))

    @property
    def has_shape(self) -> bool:
        """Whether the expression's value has dimensions, or holds tensors that have."""
        return self.is_tensors and "[]" not in (self.value or "")


def _loop_of(inside: list[ast.AST]) -> str:
    """Return the kind of the innermost loop: "for", "while", "while True"; "" if there is none.

    `inside` are the syntax nodes around an expression, up to its function.
    """
    loop = next((one for one in inside if isinstance(one, _LOOPS)), None)
    if isinstance(loop, ast.While):
        endless = isinstance(loop.test, ast.Constant) and bool(loop.test.value)
        return "while True" if endless else "while"
    return "" if loop is None else "for"


def _branch_writes(statement: ast.stmt | None, around: list[ast.AST]) -> bool:
    """Return whether a branch of `statement`, on one of the nodes `around`, does not only assign
    variables."""
    if not isinstance(statement, ast.If) or statement.test not in around:
        return False
    return any(
        isinstance(one, ast.Expr)
        or (isinstance(one, ast.Attribute | ast.Subscript) and not isinstance(one.ctx, ast.Load))
        for side in (*statement.body, *statement.orelse)
        for one in ast.walk(side)
    )


def _is_indexed_by_loop(node: ast.AST, inside: list[ast.AST]) -> bool:
    """Return whether a subscript has a variable of a `for` loop in its index.

    `inside` are the syntax nodes around it, up to its function.
    """
    loops = [one.target for one in inside if isinstance(one, ast.For | ast.AsyncFor)]
    targets = {name.id for one in loops for name in ast.walk(one) if isinstance(name, ast.Name)}
    index = ast.walk(node.slice) if isinstance(node, ast.Subscript) else ()
    return any(isinstance(name, ast.Name) and name.id in targets for name in index)


def _exit_of(statement: ast.stmt | None, around: list[ast.AST]) -> tuple[str, bool]:
    """Return how a branch on the expression ends: "break", "return", …; "" if there is none.

    The second value is the truth of the condition with which this branch is taken. `statement`
    contains the expression. `around` are the syntax nodes from the expression outwards to its
    function; the code branches on the expression if the condition of `statement` is one of them.
    All results are listed at `Usage.exit`.
    """
    if isinstance(statement, ast.Assert) and statement.test in around:
        return "handled raise" if handles(around, statement) else "raise", False
    if not isinstance(statement, ast.If) or statement.test not in around:
        return "", True
    sides = (True, statement.body), (False, statement.orelse)
    ends = [(branch[-1], side) for side, branch in sides if branch]
    for kind, name in _EXITS:
        for end, side in ends:
            if isinstance(end, kind):
                is_handled = name == "raise" and handles(around, statement)
                if isinstance(end, ast.Return) and _is_none(end.value):
                    return "return None", side
                return f"handled {name}" if is_handled else name, side
    return "", True


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def _truth_for(side: bool, around: list[ast.AST], statement: ast.stmt | None) -> bool | None:
    """Return the truth of an expression that makes a condition around it `side`, whatever else.

    `around` are the syntax nodes from the expression outwards; None if other operands decide, too.
    """
    makes = {True: True, False: False}  # the condition's value, by that of the expression
    for node in around[1:]:
        match node:
            case ast.UnaryOp(op=ast.Not()):
                makes = {truth: not value for truth, value in makes.items()}
            case ast.BoolOp(op=operator):
                decided = isinstance(operator, ast.Or)
                makes = {truth: value for truth, value in makes.items() if value is decided}
            case ast.Call(func=ast.Name("bool")):
                pass
            case _:
                if node is not statement:
                    return None
                break
    return next((truth for truth, value in makes.items() if value is side), None)


def handles(around: list[ast.AST], statement: ast.stmt) -> bool:
    """Return whether a `try` among the nodes `around` handles what `statement` raises."""
    return any(
        isinstance(one, ast.Try) and one.handlers and any(step in one.body for step in around)
        for one in around[around.index(statement) + 1 :]
    )


def parse(expression: str) -> ast.AST | None:
    """Return the syntax node of one expression or statement; None if the text is not one."""
    try:
        (node,) = ast.parse(expression.strip()).body
    except (SyntaxError, ValueError):
        return None
    return node.value if isinstance(node, ast.Expr) else node
