"""Readers of live Dynamo objects: the tracer's position, a graph's nodes, the running module."""

from __future__ import annotations

import functools
import itertools
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from fullgraph.compiler.events import Node, Position
from fullgraph.compiler.private.dynamo_objects import Instruction, OutputGraph, Tracer
from fullgraph.compiler.sources import is_user_code

_RESUME = re.compile(r"^torch_dynamo_resume_in_(.*)_at_\d+$")
_CONSUMES_OPERAND = re.compile(r"JUMP.*_IF_|TO_BOOL|(BEFORE|SETUP)_(ASYNC_)?WITH|LOAD_SPECIAL")
_MOVE = re.compile(r"NOP|COPY|SWAP|DUP_|ROT_|STORE_|TO_BOOL|NOT_TAKEN|CACHE")
"""Names of instructions between one that computes a value and a jump on it, as `:=` adds."""
_FRAME_LINE = re.compile(r'File "([^"\n]+)", line (\d+), in ')


def current_compile_id() -> str:
    """Return the id of the current compilation, such as "0/1" or "!0/3/0"; "" if there is none."""
    from torch._guards import CompileContext

    current = CompileContext.current_compile_id()
    return "" if current is None else str(current)


@functools.cache
def gb_ids() -> Mapping[str, str]:
    """Return torch's ids of graph breaks, such as "GB0012", by `gb_type`, the break's title.

    {} if this torch has no registry of them.
    """
    from torch._dynamo import exc

    load = getattr(exc, "_load_gb_type_to_gb_id_map", None)
    return load() if load else {}


def gb_url(gb_type: str) -> str:
    """Return the address of torch's page about graph breaks of a `gb_type`; "" if there is none."""
    from torch._dynamo import exc

    link = getattr(exc, "get_gbid_documentation_link", None)
    return (link(gb_type) if link else None) or ""


def function_name(name: str) -> str:
    """Return a code object's name; for a resume function, the name of the function it resumes."""
    resumed = _RESUME.match(name)
    return resumed[1] if resumed else name


def frame_position(code: CodeType) -> Position:
    """Return the position of a code object: its first line and function name."""
    return Position(code.co_filename, code.co_firstlineno, function=function_name(code.co_name))


def running_tracers(tx: Tracer | None, exc: BaseException | None) -> list[Tracer]:
    """Return the running tracers, from the compiled frame to the innermost inlined call.

    `tx` is the tracer that caught `exc`; the traceback holds the tracers of inlined calls.
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
    chain: list[Tracer] = []
    while innermost is not None:
        chain.append(innermost)
        innermost = innermost.parent
    return chain[::-1]


def root_cause_of(exc: BaseException | None) -> BaseException | None:
    """Return the exception with which a chain of graph breaks began; `exc` if it has no cause.

    In a chain, each graph break was raised while the one before it was handled. None for None.
    """
    while exc is not None:
        before = exc.__cause__ or exc.__context__
        quoted = getattr(before, "msg", None)
        if type(before).__name__ != "UserError" and not (
            quoted and quoted in (getattr(exc, "msg", None) or "")
        ):
            break
        exc = before
    return exc


def tx_position(tx: Tracer) -> Position:
    """Return the position of the expression that the tracer `tx` was executing."""
    code = tx.f_code
    where = _operand_instruction(tx).positions
    return Position(
        code.co_filename,
        (where and where.lineno) or tx.lineno or code.co_firstlineno,
        where and where.col_offset,
        where and where.end_lineno,
        where and where.end_col_offset,
        function_name(code.co_name),
    )


def _operand_instruction(tx: Tracer) -> Instruction:
    """Return the current instruction of `tx`, or the one that computed its operand.

    CPython locates a conditional jump at a whole `if` or expression, or at the comparison before
    it, and the entry of a `with` at the whole statement. For these, return the instruction that
    computed the condition or the context manager.
    """
    current = tx.current_instruction
    at = (tx.instruction_pointer or 0) - 1
    if not _CONSUMES_OPERAND.search(current.opname) or tx.instructions[at] is not current:
        return current
    targets = {id(instruction.target) for instruction in tx.instructions}
    while at > 0 and id(tx.instructions[at]) not in targets:
        at -= 1
        if not _MOVE.match(tx.instructions[at].opname):
            return tx.instructions[at]
    return current


def calling_position() -> Position | None:
    """Return the position of the user's expression in eager code that called compiled code.

    None if no user code did.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None and "CatchErrorsWrapper" not in frame.f_code.co_qualname:
        frame = frame.f_back
    while frame is not None and not is_user_code(frame.f_code.co_filename):
        if frame.f_code.co_filename.startswith(_FULLGRAPH):
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
    """Return the position of each frame in `stack`, with columns since torch 2.13; () for None."""
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


def running_modules(txs: list[Tracer]) -> Iterator[torch.nn.Module]:
    """Yield the modules whose methods the tracers `txs` are running, innermost first."""
    for tx in reversed(txs):
        for name in _self_candidates(tx.f_code):
            value = tx.f_locals.get(name) if tx is txs[0] else None
            if value is None:
                value = _held_object(tx.symbolic_locals.get(name))
            if isinstance(value, torch.nn.Module):
                yield value
                break


def _self_candidates(code: CodeType) -> tuple[str, ...]:
    """Return the names of the arguments that may be `self`.

    That is only the first argument, but every argument of a resume function.
    """
    names = code.co_varnames[: code.co_argcount]
    return names if _RESUME.match(code.co_name) else names[:1]


def _held_object(variable: object) -> object:
    """Return the object that a VariableTracker holds; None if it has none or is not realized."""
    fields = getattr(variable, "__dict__", {})
    cache = fields.get("_cache")
    return fields.get("value") if cache is None else getattr(cache, "value", None)


def shape_text(value: object) -> str | None:
    """Return dtype and shape of a (fake) tensor as "f32[2, 3]"; None for any other value."""
    if not isinstance(value, torch.Tensor):
        return None
    dtype = str(value.dtype).removeprefix("torch.")
    short = re.sub(r"^(b?)(?:float|int|uint|complex)", lambda m: _DTYPE_PREFIXES[m[0]], dtype)
    return f"{short}[{', '.join(map(str, value.shape))}]"


_DTYPE_PREFIXES = {
    "float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c",
    "bint": "bi", "buint": "bu", "bcomplex": "bc",
}  # fmt: skip


def graph_nodes(gm: torch.fx.GraphModule) -> tuple[tuple[Node, ...], tuple[str, ...], int]:
    """Return a graph's call nodes, the shapes of its inputs as text, and its number of outputs."""
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


def graph_lines(gm: torch.fx.GraphModule) -> frozenset[tuple[str, int]]:
    """Return the user's (file, line) of each call node in a graph and its subgraphs."""
    graphs = (one.graph for one in gm.modules() if isinstance(one, torch.fx.GraphModule))
    nodes = (node for graph in graphs for node in graph.nodes if node.op.startswith("call_"))
    return frozenset(filter(None, map(_user_line, nodes)))


def graph_break_reason(output: OutputGraph, gm: torch.fx.GraphModule) -> Any:
    """Return Dynamo's reason of the break that ended a graph; None if the frame returned."""
    name = "compile_subgraph_reason"
    why = getattr(output, name, None) or getattr(gm, name, None)
    return why if why is not None and why.graph_break else None


def describe_node(node: torch.fx.Node, gm: torch.fx.GraphModule) -> Node:
    """Return a call node as an event: target, shape, and the innermost user line."""
    file, line = _user_line(node) or (None, None)
    return Node(_target_name(node, gm), file, line, shape_text(node.meta.get("example_value")))


def _user_line(node: torch.fx.Node) -> tuple[str, int] | None:
    frames = _FRAME_LINE.findall(node.meta.get("stack_trace") or "")
    return innermost_user_line((file, int(line)) for file, line in reversed(frames))


_TORCH = torch.__path__[0]
_FULLGRAPH = str(Path(__file__).parents[2])


def innermost_user_line(frames: Iterable[tuple[str, int]]) -> tuple[str, int] | None:
    """Return file and line of the innermost frame outside torch, else of the innermost frame.

    `frames` are (file, line), innermost first. None if there are none.
    """
    innermost = None
    for file, line in frames:
        if not file.startswith(_TORCH):
            return file, line
        innermost = innermost or (file, line)
    return innermost


def _target_name(node: torch.fx.Node, gm: torch.fx.GraphModule) -> str:
    """Return the name of what a node calls: "Linear" for a module, "relu" for a function."""
    if node.op == "call_module":
        return type(gm.get_submodule(str(node.target))).__name__
    return getattr(node.target, "__name__", None) or str(node.target)


def guard_positions(output: OutputGraph) -> dict[str, tuple[Position, ...]]:
    """Return the user's stack at the time when each guard was installed, by guarded source.

    A source is Dynamo's name for a value: "L['x']".
    """
    lines: dict[str, tuple[Position, ...]] = {}
    context = getattr(getattr(output, "tracing_context", None), "guards_context", None)
    for guard in getattr(context, "dynamo_guards", ()) or ():
        stack = summary_positions(guard.user_stack)
        if stack:
            lines.setdefault(guard.name if isinstance(guard.name, str) else guard.name(), stack)
    return lines


def active_modes() -> tuple[str, ...]:
    """Return the active modes: "no_grad", "inference_mode", "autocast(cpu, bfloat16)"."""
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
    """Whether Dynamo raised `error`: a graph break under fullgraph=True, a forbidden recompile."""
    from torch._dynamo import exc

    return isinstance(error, exc.TorchDynamoException)
