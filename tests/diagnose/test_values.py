import ast

import numpy as np
import pytest
import torch
from torch import nn

from fullgraph.compiler.events import Position
from fullgraph.compiler.observe.values import TEXTS, WIDTH, describe, observe
from fullgraph.compiler.sources import read_source
from tests.diagnose import hiding
from tests.diagnose.hiding import Picky

X = torch.tensor([1.0, 2.0, 3.0])


def at(function, piece: str) -> Position:
    """Where `piece`, an expression or statement, stands in a function."""
    source = read_source(hiding.__file__)
    code = function.__code__
    nodes = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.expr | ast.stmt)
        and node.lineno >= code.co_firstlineno
        and source.segment(node) == piece
    ]
    return source.position(min(nodes, key=lambda node: node.lineno), code.co_name)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.zeros(3, 4), "f32[3, 4]"),
        (torch.tensor(True), "bool[] True"),
        (torch.tensor(7.25, dtype=torch.bfloat16), "bf16[] 7.25"),
        (nn.Parameter(torch.zeros(2)), "f32[2]"),
        (torch.zeros(2, 2).to_sparse(), "sparse_coo f32[2, 2]"),
        (torch.zeros(2, device="meta"), "f32[2]"),
        (7.25, "7.25"),
        ("abc", "'abc'"),
        (None, "None"),
        ([torch.zeros(2)] * 3, "list of 3 f32[2]"),
        ((torch.zeros(2), 1), "tuple of f32[2], 1"),
        ({"a": torch.zeros(2)}, "dict of 1: 'a'"),
        ([1, 2], "[1, 2]"),
        (np.zeros((3, 4)), "ndarray float64[3, 4]"),
        (np.float32(2.5), "float32 2.5"),
        (nn.Linear(1, 1), "Linear (nn.Module)"),
        (Picky, "class Picky"),
        (torch, "module torch"),
        (torch.Size([2, 3]), "torch.Size([2, 3])"),
    ],
)
def test_values_are_short_texts(value, text):
    assert describe(value) == text


def test_a_value_whose_repr_raises_or_is_long_is_still_short():
    class Rude:
        def __repr__(self):
            raise RuntimeError

    assert "Rude" in describe(Rude())
    assert len(describe({"x" * 50: 1, "y" * 50: 2, "z" * 50: 3})) <= WIDTH


@pytest.mark.compiles
def test_results_exceptions_and_truth_calls_are_those_of_the_plain_code():
    function = hiding.picky
    pieces = [
        "thing and not x",
        "thing",
        "[n for n in (i for i in (1, 2, 3)) if n > 1]",
        "n > 1",
        "iter((1, 2, 3))",
        "noisy()",
        "x or c",
        'd["k"] += 1',
        "x[1:] if isinstance(x, list) else -x",
        "-x",
    ]
    places = [at(function, piece) for piece in pieces]
    for x in ([], [5, 6], 4, ""):
        plain, seen = [], []
        for results, run in ((plain, None), (seen, places)):
            Picky.asked = 0

            def call(results=results, x=x):
                try:
                    results.append(function(Picky(), x))
                except TypeError as error:
                    results.append(str(error))
                results.append(Picky.asked)

            call() if run is None else observe(call, run)
        assert plain == seen


def test_a_test_has_its_sides_and_its_parts():
    seen = observe(lambda: hiding.Loop()(X), [at(hiding.Loop.forward, "x.sum() > 0")]).places[0]
    assert (seen.count, seen.sides) == (2, (True, True))
    assert [part.expression for part in seen.parts] == ["x.sum()", "x"]


def test_a_mask_is_seen_inside_its_subscript():
    place = at(hiding.Recurrent.forward, "out[out > 0]")
    seen = observe(lambda: hiding.Recurrent()(X), [place]).places[0]
    assert ("out > 0", ("bool[1, 1, 4]",)) in [(p.expression, p.values) for p in seen.parts]


def test_texts_are_bounded_and_evaluations_counted():
    net = hiding.Block()
    place = at(hiding.Block.forward, "x.max().item()")
    seen = observe(lambda: [net(X) for _ in range(50)], [place]).places[0]
    assert (seen.count, len(seen.values)) == (50, TEXTS)


def test_what_is_not_reached_has_count_zero_and_an_exception_is_reported():
    place, early = at(hiding.failing, '{}["nothing"]'), at(hiding.failing, "x.sum()")
    seen = observe(lambda: hiding.failing(X), [place, early])
    assert [o.count for o in seen.places] == [0, 1]
    assert seen.raised == "KeyError: 'nothing'"


def test_places_in_torch_itself_can_be_seen():
    source = read_source(nn.functional.__file__)
    line = nn.functional.dropout.__code__.co_firstlineno
    place = next(
        source.position(node)
        for (row, _), nodes in sorted(source.starts.items())
        for node in nodes
        if row > line and source.segment(node) == "p < 0.0 or p > 1.0"
    )
    seen = observe(lambda: nn.functional.dropout(X, 0.0), [place]).places[0]
    assert seen.sides == (False,) and ("p", ("0.0",)) in [
        (part.expression, part.values) for part in seen.parts
    ]


def test_places_that_cannot_be_seen_are_refused_with_a_reason():
    nowhere = Position("<nowhere>", 1, 0, 1, 5)
    seen = observe(lambda: None, [nowhere])
    assert seen.refused == ((nowhere, "its source cannot be read"),) and not seen.places


def test_a_compiled_function_inside_runs_eager():
    place = at(hiding.plain, "x.sum().item()")
    compiled = torch.compile(hiding.plain, backend="eager", fullgraph=True)
    assert observe(lambda: compiled(X), [place]).places[0].values == ("6.0",)
