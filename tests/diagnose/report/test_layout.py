from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from fullgraph.diagnose.report.layout import fold_stack, graph_strips, graph_width, order_causes

from .explanations import BRANCH, CLEAN, FILE, HIDDEN, ITEM, SITE, TWO, graph, many
from .strategies import CAUSE, tuples


def names(pieces):
    return [piece.id for piece in pieces]


def test_hidden_causes_follow_the_one_they_were_found_behind():
    deeper = replace(HIDDEN, id="C4", behind="C3")
    last = replace(ITEM, id="C5")
    order = order_causes((BRANCH, last, HIDDEN, deeper))
    assert [(cause.id, depth) for cause, depth in order] == [
        ("C2", 0),
        ("C3", 1),
        ("C4", 2),
        ("C5", 0),
    ]


@pytest.mark.compiles
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(tuples(CAUSE, 8))
def test_every_cause_is_shown_once(causes):
    shown = [cause for cause, _ in order_causes(causes)]
    assert sorted(map(id, shown)) == sorted(map(id, causes))


def test_the_strip_has_causes_between_graphs():
    assert names(graph_strips(TWO)[0].pieces) == ["G1", "C1", "G2", "C2", "G3"]


def test_a_frame_skipped_before_its_first_op_stands_in_program_order():
    skipped = replace(BRANCH, id="C1", graphs=(), next_graph="G1")
    ending = replace(ITEM, id="C2", graphs=("G1",))
    last = replace(BRANCH, id="C3", graphs=())
    causes, graphs = (skipped, ending, last), (graph(1, 3, "C2"), graph(2, 3))
    explanation = replace(TWO, causes=causes, graphs=graphs)
    assert names(graph_strips(explanation)[0].pieces) == ["C1", "G1", "C2", "G2", "C3"]


def test_causes_of_fullgraph_alone_are_not_in_the_strip():
    other = replace(ITEM, modes=("fullgraph",), graphs=())
    assert names(graph_strips(replace(CLEAN, causes=(other,)))[0].pieces) == ["G1"]


def test_backward_graphs_have_a_strip_of_their_own():
    explanation = replace(CLEAN, graphs=(graph(1, 3), graph(2, 6, phase="backward")))
    assert [strip.phase for strip in graph_strips(explanation)] == ["forward", "backward"]


def test_a_long_strip_says_what_it_leaves_out():
    strip = graph_strips(many(99), most=60)[0]
    assert strip.left_out == 40


def test_weight_grows_slowly():
    assert [graph_width(ops) for ops in (0, 1, 3, 100, 1000)] == [1, 2, 3, 8, 11]


def test_library_frames_are_folded():
    assert fold_stack(ITEM) == ("train.py:30:5 in step", "… 2 frames in torch/nn/modules")


def test_frames_of_an_installed_model_are_not_folded():
    inside = SITE + "timm/models/vit.py"
    stack = tuple(
        replace(position, file=inside) if position.file in ("train.py", FILE) else position
        for position in ITEM.stack
    )
    assert fold_stack(replace(ITEM, stack=stack, position=stack[-1])) == (
        "timm/models/vit.py:30:5 in step",
        "… 2 frames in torch/nn/modules",
    )
