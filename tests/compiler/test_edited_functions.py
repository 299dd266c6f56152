"""What must not change comes first: refusals and restoration, then the edits themselves."""

import ast
import functools
import importlib.util
import itertools
import linecache
import sys
import textwrap
from types import ModuleType

import pytest

from fullgraph.compiler.events import Position
from fullgraph.compiler.sources import (
    ORIGINAL,
    ORIGINAL_VALUE,
    FunctionEdit,
    edit_functions,
    override_sources,
)
from tests.text import block

_number = itertools.count()


@pytest.fixture
def load(tmp_path):
    """Imports a text as a module of its own file."""
    names = []

    def load(text: str) -> ModuleType:
        name = f"recoded_{next(_number)}"
        file = tmp_path / f"{name}.py"
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        names.append(name)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in names:
        del sys.modules[name]


def at(module: ModuleType | str, piece: str, nth: int = 0) -> Position:
    """Where the n-th `piece` stands in the module's file."""
    file = module if isinstance(module, str) else module.__file__
    found = 0
    for number, line in enumerate(linecache.getlines(file), 1):
        column = line.find(piece)
        while column >= 0:
            if found == nth:
                start = len(line[:column].encode())
                return Position(file, number, start, number, start + len(piece.encode()))
            found += 1
            column = line.find(piece, column + 1)
    raise LookupError(piece)


def reason(edit: FunctionEdit) -> str:
    with edit_functions([edit]) as recoding:
        assert recoding.functions == ()
    return recoding.refused[0].reason


def test_everything_is_as_before_after_the_block(load):
    module = load(
        block("""
            def f(x):
                return x + 1
        """)
    )
    code, names = module.f.__code__, set(vars(module))
    with edit_functions([FunctionEdit(at(module, "x + 1"), "value", {"value": 7})]):
        assert module.f(1) == 7
    assert module.f.__code__ is code and set(vars(module)) == names


def test_everything_is_as_before_after_an_exception(load):
    module = load(
        block("""
            def f(x):
                return x + 1
        """)
    )
    with pytest.raises(KeyError), edit_functions([FunctionEdit(at(module, "x + 1"), "7")]):
        raise KeyError
    assert module.f(1) == 2


def test_a_closure_born_inside_the_block_gets_its_own_code_back(load):
    module = load("""
        def make(y):
            def inner(x):
                return x + y
            return inner
        """)
    with edit_functions([FunctionEdit(at(module, "x + y"), "value", {"value": 7})]):
        born = module.make(5)
        assert born(1) == 7
    assert born(1) == 6


def test_a_file_that_changed_on_disk_is_refused(load):
    module = load(
        block("""
            def f(x):
                return x + 1
        """)
    )
    with open(module.__file__, "w") as file:
        file.write(
            block("""
                def f(x):
                    return x + 2
            """)
        )
    linecache.checkcache(module.__file__)
    assert "changed on disk" in reason(FunctionEdit(at(module, "x + 2"), "7"))
    assert module.f(1) == 2


def test_code_without_source_is_refused():
    scope: dict = {}
    exec(compile("def f(x): return x + 1", "<nowhere>", "exec"), scope)
    assert "cannot be read" in reason(FunctionEdit(Position("<nowhere>", 1, 17, 1, 22), "7"))
    assert scope["f"](1) == 2


@pytest.mark.parametrize(
    ("piece", "text", "why"),
    [
        ("2 + 3", "7", "not inside a function"),
        ("7 + 7", "7", "no live function"),
        ("target", "7", "target of an assignment"),
        ("+ 1", "7", "no expression"),
        ("x + 1", "for", "does not compile"),
    ],
)
def test_what_cannot_be_edited_is_refused_with_a_reason(load, piece, text, why):
    module = load("""
        n = 2 + 3
        def gone(x): return 7 + 7
        del gone
        def f(x):
            target = x + 1
            return target
        """)
    assert why in reason(FunctionEdit(at(module, piece), text))
    assert module.f(1) == 2


@pytest.mark.parametrize("text", ["f(x=1, x=2)", "return (", "yield from = 3"])
def test_a_text_that_is_no_python_is_refused(load, text):
    module = load("def f(x):\n    return x\n")
    with override_sources({module.__file__: f"def f(x):\n    {text}\n"}) as override:
        assert module.f(1) == 1
        assert "is not valid Python" in override.refused[0] and not override.functions
    assert module.f(2) == 2


def test_a_refused_edit_does_not_stop_the_others(load):
    module = load(
        block("""
            n = 2 + 3
            def f(x):
                return x + 1
        """)
    )
    with edit_functions(
        [FunctionEdit(at(module, "2 + 3"), "1"), FunctionEdit(at(module, "x + 1"), "7")]
    ) as recoding:
        assert module.f(1) == 7
    assert len(recoding.refused) == 1 and recoding.functions == (module.f,)


def test_an_expression_is_wrapped_in_a_call(load):
    module = load(
        block("""
            def f(x):
                return x + x * 2
        """)
    )
    seen = []
    edit = FunctionEdit(
        at(module, "x * 2"), f"note({ORIGINAL})", {"note": lambda v: seen.append(v) or v}
    )
    with edit_functions([edit]):
        assert module.f(3) == 9
    assert seen == [6]


def test_nested_edits_work_from_the_inside_out(load):
    module = load(
        block("""
            def f(x):
                return x * 2 + 1
        """)
    )
    edits = [
        FunctionEdit(at(module, "x * 2 + 1"), f"({ORIGINAL}, 'outer')"),
        FunctionEdit(at(module, "x * 2"), f"{ORIGINAL} * 10"),
    ]
    with edit_functions(edits):
        assert module.f(3) == (61, "outer")


def test_statements_are_dropped_kept_or_followed_by_others(load):
    module = load("""
        def f(x, out):
            assert x > 5
            out[0] = x + 1
            out[1] = x + 2
            return out
        """)
    edits = [
        FunctionEdit(at(module, "assert x > 5"), "pass"),
        FunctionEdit(at(module, "out[0] = x + 1"), f"{ORIGINAL}\nout[2] = 9"),
        FunctionEdit(at(module, "out[1] = x + 2"), f"out[3] = {ORIGINAL_VALUE}"),
    ]
    with edit_functions(edits):
        assert module.f(1, {}) == {0: 2, 2: 9, 3: 3}


def test_a_closure_keeps_a_cell_that_the_edit_no_longer_uses(load):
    module = load("""
        def make(y):
            def inner(x):
                return x + y
            return inner
        a, b = make(1), make(2)
        """)
    with edit_functions([FunctionEdit(at(module, "x + y"), "7")]):
        assert (module.a(1), module.b(1)) == (7, 7)
    assert (module.a(1), module.b(1)) == (2, 3)


def test_super_and_private_names_and_inherited_methods(load):
    module = load("""
        class Base:
            __one = 1
            def f(self, x):
                return self.__one + x
        class Child(Base):
            __two = 2
            def f(self, x):
                return super().f(x) + self.__two + x
        class Grandchild(Child):
            pass
        """)
    edits = [
        FunctionEdit(at(module, "super().f(x)"), "100"),
        FunctionEdit(at(module, "self.__one"), "50"),
    ]
    with edit_functions(edits):
        assert module.Grandchild().f(1) == 103
        assert module.Base().f(1) == 51
    assert module.Grandchild().f(1) == 5


def test_decorated_functions_and_held_ones(load):
    module = load("""
        import functools
        def twice(fn):
            @functools.wraps(fn)
            def wrapper(x):
                return fn(fn(x))
            return wrapper
        @twice
        @functools.lru_cache(None)
        def f(x):
            return x + 1
        """)
    held = functools.partial(module.f, 1)
    with edit_functions([FunctionEdit(at(module, "x + 1"), f"{ORIGINAL} * 10")]):
        module.f.__wrapped__.cache_clear()
        assert held() == 210


def test_decorators_of_overloads_are_not_new_ones_of_the_function(load):
    module = load("""
        import functools
        @functools.singledispatch
        def f(x):
            raise TypeError
        def f(x):
            return x + 1
        """)
    text = linecache.getlines(module.__file__)
    with override_sources({module.__file__: "".join(text).replace("x + 1", "x + 2")}) as override:
        assert (module.f(1), override.refused, override.decorated) == (3, (), ())


def test_a_new_assignment_is_made_inside_the_block(load):
    module = load(
        block("""
            LIMIT = 3


            def f(x):
                return x
        """)
    )
    text = block("""
        LIMIT = 4


        def g(x):
            return x + 1


        h = functools.partial(g, 2)


        def f(x):
            return x + h()
    """)
    with override_sources({module.__file__: f"import functools\n\n{text}"}):
        assert (module.f(1), module.LIMIT) == (4, 3)
    assert module.f(1) == 1
    assert not {"functools", "g", "h"} & vars(module).keys()


def test_nested_functions_lambdas_and_comprehensions(load):
    module = load("""
        def f(xs):
            def g(x):
                return x + 1
            h = lambda x: x * 2; k = lambda x: x * 3
            return [g(x) for x in xs if x > 1], h(1), k(1)
        """)
    edits = [
        FunctionEdit(at(module, "x + 1"), "0"),
        FunctionEdit(at(module, "x * 3"), "9"),
        FunctionEdit(at(module, "x > 1"), "True"),
    ]
    with edit_functions(edits):
        assert module.f([1, 2]) == ([0, 0], 2, 9)
    with edit_functions([FunctionEdit(at(module, "lambda x: x * 2"), "abs")]):
        assert module.f([1, 2]) == ([3], 1, 3)


def test_equal_lambdas_on_one_line_are_told_apart(load):
    module = load("f, g = lambda x: x + 1, lambda x: x + 1\n")
    with edit_functions([FunctionEdit(at(module, "x + 1", 1), "7")]):
        assert (module.f(1), module.g(1)) == (2, 7)


def test_generators_and_walrus_names_stay_what_they_are(load):
    module = load("""
        def f(x):
            y = yield x + 1
            if (n := x) > 1:
                yield n
        """)
    with edit_functions(
        [FunctionEdit(at(module, "yield x + 1"), "5"), FunctionEdit(at(module, "x + 1"), "0")]
    ):
        assert list(module.f(2)) == [2]


def test_columns_are_bytes_and_a_chained_call_is_found_at_its_method(load):
    module = load("""
        def f(x):
            return ("é", x.upper(), x
                .strip()
                .lower())
        """)
    lines = linecache.getlines(module.__file__)
    line = next(n for n, text in enumerate(lines, 1) if ".lower" in text)
    edits = [
        FunctionEdit(at(module, "x.upper()"), "0"),
        FunctionEdit(Position(module.__file__, line, 9, None, 16), "1"),
    ]
    with edit_functions(edits) as recoding:
        assert module.f("a") == ("é", 0, 1)
    assert not recoding.refused


def test_future_flags_are_kept(load):
    module = load("""
        from __future__ import annotations
        def f(x: Unknown):
            def g(y: AlsoUnknown): return y + 1
            return g(x)
        """)
    with edit_functions([FunctionEdit(at(module, "y + 1"), "7")]):
        assert module.f(1) == 7


def test_calls_on_imported_modules(load):
    module = load("""
        try:
            import math
        finally:
            pass
        def f(x):
            return math.floor(x) + 1
        """)
    with edit_functions([FunctionEdit(at(module, "math.floor(x)"), "7")]):
        assert module.f(1.5) == 8


def test_a_notebook_cell_is_read_from_linecache():
    text = block("""
        def cell(x):
            return x + 1
    """)
    name = "<ipython-input-3-abc>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict = {}
    exec(compile(text, name, "exec"), scope)
    with edit_functions([FunctionEdit(at(name, "x + 1"), "7")]):
        assert scope["cell"](1) == 7
    assert scope["cell"](1) == 2


def test_a_cell_is_compiled_one_statement_at_a_time_as_ipython_does():
    """Since 3.11 `math.floor(x)` compiles differently where the module imports `math`."""
    text = block("""
        import math
        def cell(x):
            return math.floor(x) + 1
    """)
    name = "<ipython-input-4-abc>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict = {}
    for statement in ast.parse(text).body:
        exec(compile(ast.Module([statement], []), name, "exec"), scope)
    with edit_functions([FunctionEdit(at(name, "math.floor(x)"), "7")]):
        assert scope["cell"](1.5) == 8
    with override_sources({name: text.replace("floor", "ceil")}):
        assert scope["cell"](1.5) == 3
    assert scope["cell"](1.5) == 2


def test_two_instances_and_a_bound_hook_share_the_edit(load):
    module = load("""
        class Net:
            def hook(self, x):
                return x + 1
        """)
    first, second = module.Net(), module.Net()
    hook = first.hook
    with edit_functions([FunctionEdit(at(module, "x + 1"), "7")]):
        assert hook(1) == second.hook(1) == 7


def test_positions_of_edited_code_are_the_original_ones(load):
    module = load(
        block("""
            def f(x):
                return (x +
                    1 / x)
        """)
    )
    with edit_functions(
        [FunctionEdit(at(module, "x"), "x"), FunctionEdit(at(module, "1 / x"), "1 / 0")]
    ):
        with pytest.raises(ZeroDivisionError) as caught:
            module.f(1)
        assert caught.traceback[-1].lineno + 1 == 3
