"""Reading torch's live objects: where the tracer is, what a graph holds, which module runs."""

from __future__ import annotations

import functools
import itertools
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from fullgraph.compiler.events import Node, Position
from fullgraph.compiler.sources import is_user_code

_RESUME = re.compile(r"^torch_dynamo_resume_in_(.*)_at_\d+$")
_TAKES = re.compile(r"JUMP.*_IF_|TO_BOOL|(BEFORE|SETUP)_(ASYNC_)?WITH|LOAD_SPECIAL")
_MOVE = re.compile(r"NOP|COPY|SWAP|DUP_|ROT_|STORE_|TO_BOOL|NOT_TAKEN|CACHE")
"""What stands between a value and the jump that tests it: `:=` copies and stores it."""
_FRAME_LINE = re.compile(r'File "([^"\n]+)", line (\d+), in ')


def current_compile_id() -> str:
    """The id of the compilation under way, such as "0/1" or "!0/3/0"; "" outside of one."""
    from torch._guards import CompileContext

    current = CompileContext.current_compile_id()
    return "" if current is None else str(current)


@functools.cache
def gb_ids() -> Mapping[str, str]:
    """`gb_type` → id, from the registry in torch's wheel; empty if this torch has none."""
    from torch._dynamo import exc

    load = getattr(exc, "_load_gb_type_to_gb_id_map", None)
    return load() if load else {}


def function_name(name: str) -> str:
    """A code object's name, resume functions under the name of the function they resume."""
    resumed = _RESUME.match(name)
    return resumed[1] if resumed else name


def frame_position(code: CodeType) -> Position:
    """The function that `code` belongs to, at its first line."""
    return Position(code.co_filename, code.co_firstlineno, function=function_name(code.co_name))


def running_tracers(tx: Any, exc: BaseException | None) -> list[Any]:
    """The tracers that were running, from the frame being compiled to the innermost inlined one.

    `tx` is the tracer that caught `exc`; those it had inlined are found in the traceback.
    """
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase

    exc = root_cause_of(exc)
    innermost = tx
    step = exc.__traceback__ if exc is not None else None
    while step is not None:
        inner = (
            step.tb_frame.f_locals.get("self") if step.tb_frame.f_code.co_name == "step" else None
        )
        if isinstance(inner, InstructionTranslatorBase):
            innermost = inner
        step = step.tb_next
    chain: list[Any] = []
    while innermost is not None:
        chain.append(innermost)
        innermost = getattr(innermost, "parent", None)
    return chain[::-1]


def root_cause_of(exc: BaseException | None) -> BaseException | None:
    """What `exc` wraps, when it was raised while another graph break was handled."""
    while exc is not None:
        before = exc.__cause__ or exc.__context__
        quoted = getattr(before, "msg", None)
        if type(before).__name__ != "UserError" and not (
            quoted and quoted in (getattr(exc, "msg", None) or "")
        ):
            break
        exc = before
    return exc


def tx_position(tx: Any) -> Position:
    """The expression whose bytecode `tx` was at."""
    code: CodeType = tx.f_code
    where = getattr(_deciding(tx), "positions", None)
    return Position(
        code.co_filename,
        (where and where.lineno) or tx.lineno or code.co_firstlineno,
        where and where.col_offset,
        where and where.end_lineno,
        where and where.end_col_offset,
        function_name(code.co_name),
    )


def _deciding(tx: Any) -> Any:
    """The instruction `tx` was at; for a conditional jump, the one that made what it tests, and
    where a `with` enters a manager, the one that made that.

    CPython locates such a jump at a whole `if` or expression, or at the comparison before it,
    and the entering at the whole `with` with all that is in it.
    """
    current = tx.current_instruction
    at = (tx.instruction_pointer or 0) - 1
    if not _TAKES.search(current.opname) or tx.instructions[at] is not current:
        return current
    targets = {id(instruction.target) for instruction in tx.instructions}
    while at > 0 and id(tx.instructions[at]) not in targets:
        at -= 1
        if not _MOVE.match(tx.instructions[at].opname):
            return tx.instructions[at]
    return current


def calling_position() -> Position | None:
    """The innermost expression of the user's that runs in eager above the compiler, if any."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and "CatchErrorsWrapper" not in frame.f_code.co_qualname:
        frame = frame.f_back
    while frame is not None and not is_user_code(frame.f_code.co_filename):
        if frame.f_code.co_filename.startswith(_OURS):
            return None
        frame = frame.f_back
    if frame is None:
        return None
    code = frame.f_code
    span = next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    line, end_line, column, end_column = span
    return Position(
        code.co_filename,
        line or frame.f_lineno,
        column,
        end_line,
        end_column,
        function_name(code.co_name),
    )


def summary_positions(stack: traceback.StackSummary | None) -> tuple[Position, ...]:
    """`exc.real_stack` as positions; columns are there since 2.13."""
    return tuple(
        Position(
            f.filename,
            f.lineno or 0,
            getattr(f, "colno", None),
            getattr(f, "end_lineno", None),  # Python 3.13
            getattr(f, "end_colno", None),
            function_name(f.name),
        )
        for f in stack or ()
    )


def running_modules(txs: list[Any]) -> Iterator[torch.nn.Module]:
    """The modules whose methods are running, innermost first."""
    for tx in reversed(txs):
        for name in _selves(tx.f_code):
            value = tx.f_locals.get(name) if tx is txs[0] else None
            if value is None:
                value = _real(tx.symbolic_locals.get(name))
            if isinstance(value, torch.nn.Module):
                yield value
                break


def _selves(code: CodeType) -> tuple[str, ...]:
    """The arguments that may be `self`: the first, or any of a resume function's."""
    names = code.co_varnames[: code.co_argcount]
    return names if _RESUME.match(code.co_name) else names[:1]


def _real(variable: Any) -> object:
    """The object a VariableTracker stands for, if it holds one. Never realizes a lazy one."""
    fields = getattr(variable, "__dict__", {})
    cache = fields.get("_cache")
    return fields.get("value") if cache is None else getattr(cache, "value", None)


def shape_text(value: object) -> str | None:
    """dtype and sizes of a (fake) tensor, "f32[2, 3]"; None if it is no tensor."""
    if not isinstance(value, torch.Tensor):
        return None
    dtype = str(value.dtype).removeprefix("torch.")
    short = re.sub(r"^(b?)(?:float|int|uint|complex)", lambda m: _SHORT[m[0]], dtype)
    return f"{short}[{', '.join(map(str, value.shape))}]"


_SHORT = {
    "float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c",
    "bint": "bi", "buint": "bu", "bcomplex": "bc",
}  # fmt: skip


def graph_nodes(gm: torch.fx.GraphModule) -> tuple[tuple[Node, ...], tuple[str, ...], int]:
    """The call nodes of a graph, its inputs' shapes, and the number of its outputs."""
    nodes, inputs, outputs = [], [], 0
    for node in gm.graph.nodes:
        value = node.meta.get("example_value")
        if node.op == "placeholder":
            inputs.append(shape_text(value) or str(value))
        elif node.op == "output":
            outputs = len(node.args[0]) if isinstance(node.args[0], tuple | list) else 1
        elif node.op.startswith("call_"):
            nodes.append(describe_node(node, gm))
    return tuple(nodes), tuple(inputs), outputs


def describe_node(node: torch.fx.Node, gm: torch.fx.GraphModule) -> Node:
    """What a call of a graph is, and the innermost line of the user's it came from."""
    found = _FRAME_LINE.findall(node.meta.get("stack_trace") or "")
    file, line = _innermost_user(found)
    return Node(_target(node, gm), file, line, shape_text(node.meta.get("example_value")))


_TORCH = torch.__path__[0]
_OURS = str(Path(__file__).parents[2])


def _innermost_user(frames: list[tuple[str, str]]) -> tuple[str | None, int | None]:
    for file, line in reversed(frames):
        if not file.startswith(_TORCH):
            return file, int(line)
    return (frames[-1][0], int(frames[-1][1])) if frames else (None, None)


def _target(node: torch.fx.Node, gm: torch.fx.GraphModule) -> str:
    if node.op == "call_module":
        return type(gm.get_submodule(str(node.target))).__name__
    return getattr(node.target, "__name__", None) or str(node.target)


def guard_positions(output: Any) -> dict[str, tuple[Position, ...]]:
    """The user's lines behind the guards of the graph being built, by the guarded source."""
    lines: dict[str, tuple[Position, ...]] = {}
    context = getattr(getattr(output, "tracing_context", None), "guards_context", None)
    for guard in getattr(context, "dynamo_guards", ()) or ():
        stack = summary_positions(guard.user_stack)
        if stack:
            lines.setdefault(guard.name if isinstance(guard.name, str) else guard.name(), stack)
    return lines


def active_modes() -> tuple[str, ...]:
    """What is switched on right now: "no_grad", "inference_mode", "autocast(cpu, bfloat16)"."""
    state = []
    if torch.is_inference_mode_enabled():
        state.append("inference_mode")
    elif not torch.is_grad_enabled():
        state.append("no_grad")
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            dtype = str(torch.get_autocast_dtype(device)).removeprefix("torch.")
            state.append(f"autocast({device}, {dtype})")
    return tuple(state)


def is_dynamo_error(error: BaseException) -> bool:
    """Whether Dynamo raised it: a graph break under fullgraph=True, a recompile that was not
    wanted."""
    from torch._dynamo import exc

    return isinstance(error, exc.TorchDynamoException)
