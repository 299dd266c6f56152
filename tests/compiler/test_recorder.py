"""What `record` hears while real programs compile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fullgraph.compiler.events import Fate, Recording
from fullgraph.compiler.recording import record
from tests.diagnose import breaking as b

pytestmark = pytest.mark.compiles

X = torch.ones(4)


def recorded(target: Any, *calls: tuple[Any, ...], **options: Any) -> Recording:
    torch._dynamo.reset()
    with record(target) as recorder:
        compiled = torch.compile(target, backend="eager", **options)
        for call in calls:
            compiled(*call)
    return recorder.recording


def test_a_break_has_the_exact_expression_and_the_inlined_stack() -> None:
    first, second, third = recorded(b.nested, (X,)).breaks
    assert [p.function for p in first.stack] == ["nested", "inner"]
    place = first.stack[-1]
    source = Path(place.file).read_text().splitlines()[place.line - 1]
    assert source[place.column : place.end_column] == "x.sum().item()"
    assert {brk.stack[-1].key for brk in (first, second, third)} == {place.key}
    assert first.fate is Fate.RESUMED
    assert first.gb_id == "GB0124"
    assert "capture_scalar_outputs" in first.explanation


def test_a_break_in_a_loop_is_unwrapped_and_skips_its_frame() -> None:
    (brk,) = recorded(b.in_for, (X,)).breaks
    assert brk.fate is Fate.SKIPPED
    assert brk.gb_type == "Failed to trace builtin operator"
    assert brk.frame.function == "in_for"


def test_a_break_in_a_child_names_the_module_and_its_siblings() -> None:
    breaks = recorded(b.Stack(), (torch.ones(2, 4),)).breaks
    assert breaks[0].module_paths == ("layers.0", "layers.1", "layers.2")
    assert breaks[0].stack[-1].function == "forward"


def test_what_was_switched_on_is_told() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            print(end="")
        return x + 1

    (brk,) = recorded(step, (X,)).breaks
    assert brk.state == ("no_grad", "autocast(cpu, bfloat16)")


def test_fullgraph_errors_are_raised_breaks() -> None:
    torch._dynamo.reset()
    with record() as recorder, pytest.raises(Exception, match=r"graph break|Data-dependent"):
        torch.compile(b.branch, backend="eager", fullgraph=True)(X)
    (brk,) = recorder.recording.breaks
    assert (brk.fate, brk.gb_id) == (Fate.RAISED, "GB0170")


def test_graphs_have_ops_shapes_lines_and_their_end() -> None:
    first, second = recorded(b.branch, (X,)).graphs
    assert [node.target for node in first.nodes] == ["sum", "gt"]
    assert first.inputs == ("f32[4]",)
    assert first.nodes[0].shape == "f32[]"
    assert first.nodes[0].file == b.__file__
    assert first.ended_by is not None and first.ended_at is not None
    assert (second.ops, second.ended_by) == (1, None)


def test_a_recompile_names_the_guard_and_the_line() -> None:
    recording = recorded(b.scaled, (X, 1.5), (X, 2.5))
    (recompile,) = recording.recompiles
    assert recompile.guards == ("k == 1.5",)
    assert [p.file for p in recompile.positions] == [b.__file__]
    assert len(recording.graphs) == 2


def test_the_recompile_limit_is_one_break_and_no_recompile() -> None:
    recording = recorded(b.Counter(), *[(X,)] * 12)
    limits = [brk for brk in recording.breaks if "limit" in brk.gb_type.lower()]
    assert len(limits) == 1
    assert limits[0].gb_id == "GB0039"
    # the recompile that was refused is none; the first is of the version made dynamic
    assert len(recording.recompiles) == len(recording.graphs) - 1


def test_a_failing_backend_is_a_failure_with_its_stage() -> None:
    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        raise RuntimeError("no")

    torch._dynamo.reset()
    with record() as recorder, pytest.raises(Exception, match="no"):
        torch.compile(b.clean, backend=backend)(X)
    (failure,) = recorder.recording.failures
    assert failure.stage == "backend"
    assert "RuntimeError" in failure.error


def test_times_are_told_for_every_compilation() -> None:
    recording = recorded(b.branch, (X,))
    assert len(recording.timings) >= 2
    assert all(t.dynamo is not None and t.dynamo > 0 for t in recording.timings)


def test_a_generator_is_heard_though_the_tracer_never_starts() -> None:
    recording = recorded(b.generator, (X,))
    assert [brk.fate for brk in recording.breaks] == [Fate.SKIPPED]


def test_a_frame_of_torchs_knows_the_users_line_that_called_it() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(2):
                x, _ = self.rnn(x)
            return x

    breaks = recorded(Recurrent(), (torch.ones(3, 2, 4),)).breaks
    for brk in breaks:
        users = [p for p in brk.stack if p.file == __file__]
        assert users or brk.called_from is None or brk.called_from.file == __file__
    assert breaks


def test_recorders_nest_and_leave_torch_as_it_was() -> None:
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase

    before = vars(InstructionTranslatorBase)["log_graph_break"]
    torch._dynamo.reset()
    with record() as outer:
        with record() as inner:
            torch.compile(b.branch, backend="eager")(X)
        torch.compile(b.clean, backend="eager")(X)
    assert len(inner.recording.breaks) == len(outer.recording.breaks) == 1
    assert len(outer.recording.graphs) == len(inner.recording.graphs) + 1
    assert vars(InstructionTranslatorBase)["log_graph_break"] is before


def test_every_event_is_told_as_it_happens() -> None:
    heard: list[object] = []
    torch._dynamo.reset()
    with record(None, heard.append) as recorder:
        torch.compile(b.branch, backend="eager")(X)
    assert tuple(heard) == recorder.recording.events
