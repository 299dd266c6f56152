"""What an expression reads, and what becomes of its value, by the syntax of its function."""

from __future__ import annotations

import ast

import pytest

from fullgraph.compiler.sources import FunctionNode, Source, read_source
from fullgraph.diagnose.taxonomy.flow import origins_of, uses_of, what_is_read


@pytest.fixture
def at(tmp_path):
    """Return the node of an expression in a function, the function, and their file."""

    def find(code: str, expression: str) -> tuple[ast.AST, FunctionNode, Source]:
        path = tmp_path / f"code{len(list(tmp_path.iterdir()))}.py"
        path.write_text(code)
        file = read_source(str(path))
        assert file is not None
        wanted = ast.dump(ast.parse(expression, mode="eval").body)
        found = next(node for node in ast.walk(file.tree) if ast.dump(node) == wanted)
        above = (one for one in file.ancestors(found) if isinstance(one, FunctionNode))
        return found, next(above), file

    return find


@pytest.mark.parametrize(
    ("code", "expression", "uses"),
    [
        ("return x[m].float().sum()", "x[m]", {"reduced"}),
        ("s = x[m]; return torch.mean(s)", "x[m]", {"averaged"}),
        ("n = x.item(); return x + n if not n > 3 else x", "x.item()", {"branch", "arithmetic"}),
        ("return y[: x.item()]", "x.item()", {"size"}),
        ("return torch.zeros((2, x.item() + 1))", "x.item()", {"size"}),
        ("for i in range(x.item()): print(i)", "x.item()", {"size"}),
        ("return y[x.item()]", "x.item()", {"index"}),
        ("return x.item()", "x.item()", {"returned"}),
        ("for v in x.tolist(): print(v)", "x.tolist()", {"iterated"}),
        ("assert x.item() > 0, y.sum().item()", "x.item()", {"asserted"}),
        ("assert x.item() > 0, y.sum().item()", "y.sum().item()", {"shown"}),
        ("print(f'{x.item():.2f}')", "x.item()", {"shown"}),
        ("log.info('%f', x.item())", "x.item()", {"shown"}),
        ("a, b = x.tolist()", "x.tolist()", {"other"}),
    ],
)
def test_uses_are_those_of_the_value(at, code, expression, uses):
    node, function, file = at(f"def f(x, y, m):\n {code}", expression)
    assert uses_of(node, function, file) == uses


@pytest.mark.parametrize(
    ("code", "expression", "read"),
    [
        ("return g(x)", "g(x)", "inputs"),
        ("x = g(x)", "g(x)", "inputs"),
        ("x = x + 1; return g(x)", "g(x)", "computed"),
        ("while x > 0: x = g(x)", "g(x)", "computed"),
        ("return g(self.k)", "g(self.k)", "nothing"),
        ("return [g(v) for v in (1, 2)]", "[g(v) for v in (1, 2)]", "nothing"),
        ("return lambda: g(x)", "g(x)", "computed"),
    ],
)
def test_what_is_computed_inside_is_told_from_arguments(at, code, expression, read):
    node, function, file = at(f"def f(self, x):\n {code}", expression)
    assert what_is_read(node, function, file, is_entry=True) == read


def test_an_argument_of_an_inner_function_counts_as_computed(at):
    node, function, file = at("def f(x): return g(x)", "g(x)")
    assert what_is_read(node, function, file, is_entry=False) == "computed"


def test_a_variable_has_an_origin_if_it_is_assigned_once(at):
    code = "def f(x): n = len(x); k = 1; k = 2; return g(n, k)"
    node, function, _ = at(code, "g(n, k)")
    assert origins_of(node, function) == {"n": "len(x)"}
