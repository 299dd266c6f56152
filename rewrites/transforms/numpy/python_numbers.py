"""NumPy scalars made of Python numbers, written without NumPy: `np.ceil(h / 2).astype(int)`."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.analysis import Site, find_definitions, walk
from fullgraph.rewrites.source import Replacement, build_expression

_WHOLE = {
    "ceil": "math.ceil",
    "floor": "math.floor",
    "trunc": "math.trunc",
    "fix": "math.trunc",
    "rint": "round",
    "round": "round",
    "around": "round",
    "round_": "round",
}
"""Functions that return an integral float in NumPy and an int in Python."""
_ONE = {
    name: name
    for name in ("sqrt", "exp", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh")
} | {"fabs": "fabs", "arctan": "atan", "arcsin": "asin", "arccos": "acos"}
_BINARY = {
    "power": "{a} ** {b}",
    "mod": "{a} % {b}",
    "remainder": "{a} % {b}",
    "floor_divide": "{a} // {b}",
    "divide": "{a} / {b}",
    "true_divide": "{a} / {b}",
    "add": "{a} + {b}",
    "subtract": "{a} - {b}",
    "multiply": "{a} * {b}",
    "maximum": "max({a}, {b})",
    "minimum": "min({a}, {b})",
    "arctan2": "math.atan2({a}, {b})",
    "hypot": "math.hypot({a}, {b})",
}
_FLOATS = ("divide", "true_divide", "arctan2", "hypot")
_FOLDS = {"prod": "math.prod", "product": "math.prod", "sum": "sum", "max": "max", "amax": "max"}
_FOLDS |= {"min": "min", "amin": "min"}
_INTS = ("int", "int64", "int32", "int_", "intp", "long")
_FLOAT_TYPES = ("float", "float64", "float_", "double")
_ARRAYS = ("array", "asarray")
_OPERATORS = (
    cst.Add | cst.Subtract | cst.Multiply | cst.Divide | cst.FloorDivide | cst.Modulo | cst.Power
)
_SEQUENCES = {"torch.Size", "tuple", "list"}


@dataclass(frozen=True)
class PythonNumber:
    """Replacement of a NumPy expression for a number: `math.sqrt(n)` for `np.sqrt(n)`."""

    node: cst.BaseExpression
    kind: type
    """int or float."""
    whole: cst.BaseExpression | None = None
    """An int expression of the same value; None if the value may have a fraction."""
    changed: bool = False
    """Whether `node` differs from the original expression."""


class PythonNumberConverter:
    """Converter of NumPy expressions for numbers: `np.sqrt(n)` → `math.sqrt(n)`."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.replacements: dict[cst.CSTNode, Replacement] = {}
        self.unknown = False
        """Whether an unobserved value was assumed to be a number."""
        self.failed = False
        """Whether a converted variable has a use that needs NumPy."""
        self.sequence: cst.BaseExpression | None = None
        """The shape or tuple whose items `size` stands for, if the expression is an array."""
        self._defined: dict[cst.CSTNode, type | None] = {}

    def number(self, node: cst.BaseExpression) -> PythonNumber | None:
        """Return `node` converted to a Python number; None if it cannot be converted."""
        match node:
            case cst.Integer():
                return PythonNumber(node, int)
            case cst.Float():
                return PythonNumber(node, float)
            case cst.UnaryOperation(operator=cst.Minus() | cst.Plus()):
                inner = self.number(node.expression)
                if inner is None or not inner.changed:
                    return inner and PythonNumber(node, inner.kind)
                new = node.with_changes(expression=inner.node)
                return PythonNumber(new, inner.kind, None, True)
            case cst.BinaryOperation() if isinstance(node.operator, _OPERATORS):
                return self._operation(node)
            case cst.Call():
                return self._call(node)
            case cst.Name() | cst.Attribute() | cst.Subscript():
                return self._leaf(node)
        return None

    def each(self, node: cst.BaseExpression) -> PythonNumber | None:
        """Return an array computed from one shape as a list of Python numbers.

        None if `node` is something else.
        """
        made = self.number(node)
        if made is None or self.sequence is None:
            return None
        item = made.whole if made.kind is int and made.whole is not None else made.node
        new = build_expression("[{item} for size in {all}]", item=item, all=self.sequence)
        return PythonNumber(new, made.kind, None, True)

    # Kinds of expression.

    def _operation(self, node: cst.BinaryOperation) -> PythonNumber | None:
        """Convert arithmetic of numbers."""
        left, right = self.number(node.left), self.number(node.right)
        if left is None or right is None:
            return None
        floating = isinstance(node.operator, cst.Divide) or float in (left.kind, right.kind)
        changed = left.changed or right.changed
        new = node.with_changes(left=left.node, right=right.node) if changed else node
        return PythonNumber(new, float if floating else int, None, changed)

    def _leaf(self, node: cst.BaseExpression) -> PythonNumber | None:
        """Return a variable, attribute or item as a number; None if its values were no numbers."""
        seen = self.site.observed(node)
        if isinstance(node, cst.Name) and (seen is None or seen.is_ndarray):
            kind = self._type_of_name(node)
            if kind is not None:
                return PythonNumber(node, kind)
        if seen is None:
            self.unknown = True
            return PythonNumber(node, float)
        if not seen.is_number:
            return None
        return PythonNumber(node, float if "float" in seen.types else int)

    def _call(self, call: cst.Call) -> PythonNumber | None:
        """Convert a call of NumPy, of a method, or of Python's own functions."""
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("astype", "item"):
            return self._method(call, call.func)
        called = self.site.callee_name(call)
        if any(arg.keyword is not None or arg.star for arg in call.args):
            return None
        if called in ("int", "float", "round", "abs") and len(call.args) == 1:
            return self._conversion(call, called, call.args[0].value)
        if called.startswith("numpy."):
            return self._numpy(call, called.removeprefix("numpy."))
        seen = self.site.observed(call)
        if called in ("max", "min") or called.startswith("math."):
            return self._python(call, seen)
        if seen is not None and seen.is_number and not _mentions_numpy(self.site, call):
            return PythonNumber(call, float if "float" in seen.types else int)
        return None

    def _python(self, call: cst.Call, seen: ValueSummary | None) -> PythonNumber | None:
        """Convert `max(a, b)` and functions of `math`."""
        made = [self.number(arg.value) for arg in call.args]
        if any(one is None for one in made):
            return None
        known = [one for one in made if one is not None]
        pairs = zip(call.args, known, strict=True)
        args = [arg.with_changes(value=one.node) for arg, one in pairs]
        changed = any(one.changed for one in known)
        whole = seen is not None and seen.types == ("int",)
        whole = whole or all(one.kind is int for one in known)
        new = call.with_changes(args=args) if changed else call
        return PythonNumber(new, int if whole else float, None, changed)

    def _method(self, call: cst.Call, func: cst.Attribute) -> PythonNumber | None:
        """Convert `n.astype(int)` and `n.item()`."""
        made = self.number(func.value)
        if made is None:
            return None
        if func.attr.value == "item" and not call.args:
            return PythonNumber(made.node, made.kind, made.whole, True)
        if len(call.args) != 1:
            return None
        named = self.site.document.qualified_name(call.args[0].value).removeprefix("numpy.")
        if isinstance(literal := call.args[0].value, cst.SimpleString):
            named = str(literal.evaluated_value)
        if named in _INTS:
            return _as_int(made)
        return _as_float(made) if named in _FLOAT_TYPES else None

    def _conversion(
        self, call: cst.Call, called: str, value: cst.BaseExpression
    ) -> PythonNumber | None:
        """Convert `int(n)`, `float(n)`, `abs(n)` and `round(n)`."""
        made = self.number(value)
        if made is None:
            return None
        if called == "float" or (called == "abs" and made.changed):
            new = call.with_changes(args=[call.args[0].with_changes(value=made.node)])
            kind = float if called == "float" else made.kind
            return PythonNumber(new if made.changed else call, kind, None, made.changed)
        if called == "int" and made.changed:
            return _as_int(made)
        if made.changed:
            new = call.with_changes(args=[call.args[0].with_changes(value=made.node)])
            return PythonNumber(new, int, None, True)
        return PythonNumber(call, made.kind if called == "abs" else int)

    def _numpy(self, call: cst.Call, name: str) -> PythonNumber | None:
        """Convert a call of NumPy's function `name`."""
        values = [arg.value for arg in call.args]
        if name in _ARRAYS and len(values) == 1:
            return self._array(values[0])
        if name in _FOLDS and len(values) == 1:
            return self._fold(name, values[0])
        made = [self.number(value) for value in values]
        known = [one for one in made if one is not None]
        if len(known) < len(made) or not known:
            return None
        first = known[0].node
        if name in _WHOLE and len(known) == 1:
            whole = build_expression(f"{_WHOLE[name]}({{a}})", a=first)
            return PythonNumber(build_expression("float({a})", a=whole), float, whole, True)
        if name in _ONE and len(known) == 1:
            return PythonNumber(
                build_expression(f"math.{_ONE[name]}({{a}})", a=first), float, None, True
            )
        if name in _BINARY and len(known) == 2:
            new = build_expression(_BINARY[name], a=first, b=known[1].node)
            floating = name in _FLOATS or float in (known[0].kind, known[1].kind)
            return PythonNumber(new, float if floating else int, None, True)
        if name == "clip" and len(known) == 3:
            new = build_expression(
                "min(max({a}, {b}), {c})", a=first, b=known[1].node, c=known[2].node
            )
            return PythonNumber(
                new, float if float in {one.kind for one in known} else int, None, True
            )
        if name in ("abs", "absolute") and len(known) == 1:
            return PythonNumber(build_expression("abs({a})", a=first), known[0].kind, None, True)
        if name == "square" and len(known) == 1:
            return PythonNumber(build_expression("{a} ** 2", a=first), known[0].kind, None, True)
        if name in _INTS and len(known) == 1:
            return _as_int(known[0])
        return _as_float(known[0]) if name in _FLOAT_TYPES and len(known) == 1 else None

    def _fold(self, name: str, sequence: cst.BaseExpression) -> PythonNumber | None:
        """Convert a reduction such as `np.prod(x.shape)`."""
        if isinstance(sequence, cst.List | cst.Tuple):
            made = [self.number(element.value) for element in sequence.elements]
            if None in made:
                return None
            floating = any(one is not None and one.kind is float for one in made)
        else:
            known = self._is_sequence(sequence)
            if not known:
                return None
            seen = self.site.observed(sequence)
            floating = seen is not None and "float" in seen.items
        new = build_expression(f"{_FOLDS[name]}({{all}})", all=sequence)
        return PythonNumber(new, float if floating else int, None, True)

    def _array(self, sequence: cst.BaseExpression) -> PythonNumber | None:
        """Convert `np.array(x.shape)` to `size`, a name that stands for each item of the shape."""
        same = self.sequence is None or self.sequence.deep_equals(sequence)
        if not same or not self._is_sequence(sequence):
            return None
        self.sequence = sequence
        seen = self.site.observed(sequence)
        floating = seen is not None and "float" in seen.items
        return PythonNumber(cst.Name("size"), float if floating else int, None, True)

    def _is_sequence(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a shape, or a tuple or list of numbers."""
        seen = self.site.observed(node)
        if seen is None:
            shape = m.Attribute(attr=m.Name("shape")) | m.Call(
                func=m.Attribute(attr=m.Name("size")), args=[]
            )
            if m.matches(node, shape | m.Subscript(value=shape)):
                return True
            self.unknown = True
            return isinstance(node, cst.Name | cst.Attribute | cst.Subscript)
        return set(seen.types) <= _SEQUENCES and set(seen.items) <= {"int", "float"}

    # Definitions of names.

    def _type_of_name(self, name: cst.Name) -> type | None:
        """Return the type of the number that a variable holds once its definition is converted.

        None if the definition is not one that can be converted. Records the edits of its uses.
        """
        known = find_definitions(self.site.document, name)
        bindings = known.reaching.get(name, frozenset()) if known is not None else frozenset()
        if known is None or len(bindings) != 1:
            return None
        (binding,) = bindings
        if binding not in self._defined:
            self._defined[binding] = None
            names, kind = self._bind(binding)
            self._defined |= dict.fromkeys(names, kind)
            if kind is not None:
                for use in (use for one in names for use in known.uses(one)):
                    self._convert_uses(use)
        return self._defined[binding]

    def _bind(self, binding: cst.CSTNode) -> tuple[list[cst.CSTNode], type | None]:
        """Convert the definition that contains `binding`.

        Returns the names that it binds, and the type of their numbers or None if they are no
        numbers.
        """
        parents = self.site.document.parents
        target = parents.get(binding)
        above = parents.get(target) if target is not None else None
        match target, above:
            case cst.AssignTarget(), cst.Assign(value=value):
                return [binding], self._record_value(value, self.number(value))
            case cst.Element(), cst.Tuple() | cst.List():
                names = [one.value for one in above.elements]
                assign = parents.get(parents[above])
                if isinstance(assign, cst.Assign) and all(isinstance(n, cst.Name) for n in names):
                    inner = PythonNumberConverter(self.site)
                    made = inner.each(_without_list(assign.value))
                    self.unknown |= inner.unknown
                    return list(names), self._record_value(assign.value, made)
            case cst.For(iter=cst.Call() as call), _ if target.target is binding:
                return [binding], self._range(call)
        return [binding], None

    def _record_value(self, value: cst.BaseExpression, made: PythonNumber | None) -> type | None:
        """Record the edit of an assigned value; return the type of its number.

        None if `made` is None, because the value could not be converted.
        """
        if made is None:
            return None
        if made.changed:
            self.replacements[value] = made.node
        return made.kind

    def _range(self, call: cst.Call) -> type | None:
        """Convert the `np.arange(0, n, 2)` of a `for` to `range`; return int.

        None if it is another call or has arguments that are not ints.
        """
        if self.site.callee_name(call) != "numpy.arange" or any(arg.keyword for arg in call.args):
            return None
        made = [self.number(arg.value) for arg in call.args]
        if any(one is None or one.kind is not int for one in made):
            return None
        pairs = zip(call.args, made, strict=True)
        args = [arg.with_changes(value=one.node) for arg, one in pairs if one is not None]
        self.replacements[call] = call.with_changes(func=cst.Name("range"), args=args)
        return int

    def _convert_uses(self, use: cst.Name) -> None:
        """Convert the NumPy calls around a use of a name that now holds a Python number."""
        best: tuple[cst.Call, PythonNumber] | None = None
        for around in self.site.document.ancestors(use):
            if isinstance(around, cst.Arg | cst.Attribute):
                continue
            if not isinstance(around, cst.Call):
                break
            made = self.number(around)
            if made is None or not made.changed:
                break
            best = (around, made)
        if best is not None:
            self.replacements[best[0]] = best[1].node
        elif isinstance(self.site.document.parent(use), cst.Attribute):
            self.failed = True


def _as_int(made: PythonNumber) -> PythonNumber:
    """Return a number converted to int: `int(n)`, or `n` if it is an int already."""
    if made.kind is int:
        return PythonNumber(made.node, int, None, True)
    new = made.whole or build_expression("int({n})", n=made.node)
    return PythonNumber(new, int, new, True)


def _as_float(made: PythonNumber) -> PythonNumber:
    """Return a number converted to float: `float(n)`, or `n` if it is a float already."""
    new = made.node if made.kind is float else build_expression("float({n})", n=made.node)
    return PythonNumber(new, float, made.whole, True)


def _without_list(value: cst.BaseExpression) -> cst.BaseExpression:
    """Return `array` for `array.tolist()`; other expressions unchanged."""
    match value:
        case cst.Call(func=cst.Attribute(value=array, attr=cst.Name("tolist")), args=[]):
            return array
    return value


def _mentions_numpy(site: Site, node: cst.CSTNode) -> bool:
    """Whether an expression calls NumPy."""
    return any(site.callee_name(one).startswith("numpy.") for one in walk(node))
