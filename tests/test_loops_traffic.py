"""Bytes that benchmarks/loops counts for graphs, and stages of the time of a first call."""

import time
from functools import partial
from pathlib import Path

import pytest
import torch

from benchmarks.loops.traffic import (
    CountedGraph,
    TimedGraph,
    bytes_of_nodes,
    compile_counted,
    computing_nodes,
    count_calls,
    facts,
    time_nodes,
)
from benchmarks.stages import StageTimes

X, TABLE, INDEX, SQUARE = torch.randn(8, 8), torch.randn(100, 8), torch.arange(8), torch.randn(8, 8)


def chain(x, table, index, square):
    return ((x + table[index]).relu() * 2) @ square


@pytest.mark.compiles
def test_each_node_of_eager_reads_operands_and_writes_results():
    graphs: list[TimedGraph] = []
    torch.compile(chain, backend=partial(time_nodes, graphs))(X, TABLE, INDEX, SQUARE)
    (graph,) = graphs
    found = bytes_of_nodes(computing_nodes(graph.module))
    gather = 256 + 64 + 256  # the rows that are read, not the table
    assert found == {"others": gather + 3 * 256 + 2 * 256 + 2 * 256, "externs": 3 * 256}
    assert {"index", "mm"} <= {str(node.target).split(".")[1] for node in graph.seconds}


@pytest.mark.compiles
def test_a_fused_kernel_reads_its_inputs_once_and_writes_one_result():
    graphs: list[CountedGraph] = []
    compiled = torch.compile(chain, backend=partial(compile_counted, graphs))
    compiled(X, TABLE, INDEX, SQUARE)
    count_calls(graphs, lambda: [compiled(X, TABLE, INDEX, SQUARE) for _ in range(2)])
    found = facts(graphs)
    assert found["moved"] == {"others": 2 * (256 + 256 + 64 + 256), "externs": 2 * 3 * 256}
    assert (found["nodes"], found["externs"], found["kernels"]) == ({"generated": 4}, 1, 1)


def test_builds_are_taken_out_of_the_stage_that_waits_for_them(tmp_path: Path):
    log = tmp_path / "builds"
    with StageTimes(log) as stages:
        begin = time.time()
        time.sleep(0.2)
        log.write_text(f"{begin} {time.time()} 0.07 0.01\n")
    seconds = stages.seconds()
    assert seconds["wall"]["compiler"] > 0
    assert seconds["cpu"]["compiler"] == pytest.approx(0.08)
    assert seconds["wall"]["own Python"] == 0
