"""Explanations built by hand, of every sort that a renderer must draw."""

from __future__ import annotations

from dataclasses import replace

from fullgraph.compiler.events import Position
from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.explanation_data import (
    Advice,
    Cause,
    Crash,
    Edit,
    Fallback,
    GraphInfo,
    Measurement,
    Mode,
    Note,
    RecompileInfo,
)
from tests.text import block

SITE = "/usr/lib/python3.11/site-packages/"
FILE = "models/net.py"


def position(line: int, text: str, expression: str, function: str = "Net.forward") -> Position:
    """Where `expression` stands in `text`, in UTF-8 columns."""
    start = len(text[: text.index(expression)].encode())
    return Position(FILE, line, start, line, start + len(expression.encode()), function)


def graph(number: int, ops: int, ended_by: str | None = None, phase: str = "forward") -> GraphInfo:
    return GraphInfo(
        id=f"G{number}",
        compile_id=f"0/{number - 1}",
        function="Net.forward",
        file=FILE,
        line=10,
        ops=ops,
        inputs=("f32[2, 3]",),
        first_line=10 + number,
        last_line=11 + number,
        ended_by=ended_by,
        phase=phase,
        targets=("torch.relu",) * min(ops, 3),
    )


ITEM = Cause(
    id="C1",
    category="scalar from a tensor",
    gb_id="GB0124",
    gb_type="Unsupported Tensor.item() call with capture_scalar_outputs=False",
    position=position(14, "        total = mask.sum().item()", "mask.sum().item()"),
    expression="mask.sum().item()",
    source=(
        (11, "    def forward(self, x, mask):"),
        (12, "        y = self.conv(x)"),
        (13, "        # how many pixels count"),
        (14, "        total = mask.sum().item()"),
        (15, '        self.log["total"] = total'),
        (16, "        return y / max(total, 1)"),
    ),
    message="`mask.sum().item()` takes a number (it was 37.0) out of a tensor while tracing.",
    detail="Dynamo does not know the value of a tensor when it traces.",
    stack=(
        Position("train.py", 30, 4, 30, 20, "step"),
        Position(SITE + "torch/nn/modules/module.py", 1775, 8, 1775, 50, "Module._call_impl"),
        Position(SITE + "torch/nn/modules/container.py", 250, 8, 250, 30, "Sequential.forward"),
        Position(FILE, 14, 16, 14, 33, "Net.forward"),
    ),
    module_path="layers[0..2]",
    events=3,
    graphs=("G1",),
    ops_before=12,
    ops_after=5,
    state=("no_grad",),
    advice=(
        Advice(
            text="Set `torch._dynamo.config.capture_scalar_outputs = True`.",
            kind="config",
            trap="code that branches on the number then fails with a data-dependent guard.",
        ),
        Advice(
            text="Keep the number in a tensor.",
            kind="code",
            before=block("""
                total = mask.sum().item()
                y / max(total, 1)"""),
            after=block("""
                total = mask.sum()
                y / total.clamp(min=1)"""),
            modes=("default", "fullgraph"),
        ),
    ),
    consequences=("The comprehension in `collate` (GB4347) ran eager because of it.",),
)

BRANCH = Cause(
    id="C2",
    category="branch on a tensor",
    gb_id="GB0170",
    gb_type="Data-dependent branching",
    position=position(22, "        if x.sum() > 0:", "x.sum() > 0"),
    expression="x.sum() > 0",
    source=((21, "        x = self.norm(x)"), (22, "        if x.sum() > 0:"), (23, "")),
    message="The branch depends on the value of `x.sum() > 0` (it was True).",
    frame="skipped",
    modes=("default", "fullgraph"),
    graphs=("G2",),
    ops_before=5,
    advice=(Advice(text="Compute both sides and choose with `torch.where`.", kind="code"),),
)

HIDDEN = Cause(
    id="C3",
    category="print",
    gb_id="GB0059",
    gb_type="Attempted to call function marked as skipped",
    position=position(24, "            print(x.shape)", "print(x.shape)"),
    expression="print(x.shape)",
    source=((23, ""), (24, "            print(x.shape)"), (25, "        return x")),
    message="`print` cannot be traced.",
    hidden=True,
    behind="C2",
    branch="not taken",
    events=0,
)

KEEP = Edit(
    rule="FG201",
    file=FILE,
    line=14,
    before=("total = mask.sum().item()",),
    after=("total = mask.sum()",),
    why="A 0-d tensor does what the number did, inside the graph.",
    diff=(
        f"--- a/{FILE}\n+++ b/{FILE}\n@@ -12,4 +12,4 @@\n"
        "         y = self.conv(x)\n         # how many pixels count\n"
        "-        total = mask.sum().item()\n+        total = mask.sum()\n"
        '         self.log["total"] = total\n'
    ),
    applicability="unsafe",
    assumes=("every reader of `self.log` accepts a 0-d tensor",),
    removes=("C1",),
)

SETTING = Edit(
    rule="FG901",
    file=FILE,
    line=14,
    before=(),
    after=(),
    why="Dynamo then captures the number.",
    diff="",
    applicability="display",
    settings=("torch._dynamo.config.capture_scalar_outputs = True",),
    removes=("C1",),
)

EDITED = replace(ITEM, edits=(SETTING, KEEP), url="https://example.org/gb0124.html")

CLEAN = Explanation(
    torch="2.13.0",
    target="Net",
    backend="eager",
    verdict="Net is one graph of 12 ops in default mode and under fullgraph=True.",
    default=Mode(graphs=1, breaks=0, ok=True),
    fullgraph=Mode(graphs=1, breaks=0, ok=True),
    graphs=(graph(1, 12),),
    runs=(("default mode", 1),),
)

TWO = Explanation(
    torch="2.13.0",
    target="Net",
    backend="eager",
    verdict="Net runs as 3 graphs: 4 breaks from 2 causes, 1 more hidden.",
    default=Mode(graphs=3, breaks=4, ok=False),
    fullgraph=Mode(graphs=None, breaks=1, ok=False),
    causes=(ITEM, BRANCH, HIDDEN),
    graphs=(graph(1, 12, "C1"), graph(2, 5, "C2"), graph(3, 140)),
    runs=(("default mode", 1), ("eager values", 1), ("fullgraph", 1)),
    output="shape (2, 3)\n",
)

TROUBLED = replace(
    TWO,
    recompiles=(
        RecompileInfo(
            function="Net.forward",
            file=FILE,
            line=11,
            count=8,
            guards=("L['self'].step == 3", "L['self'].step == 2"),
            positions=(position(18, "        if self.step % 2:", "self.step"),),
            message="The integer attribute `self.step` is a constant of the graph.",
            advice=(Advice(text="Make it a tensor buffer.", kind="code"),),
        ),
    ),
    fallbacks=(
        Fallback("Net.decode", FILE, 60, "It is a generator.", gb_id="GB0003", cause="C2"),
        Fallback("Net.step", FILE, 11, "The recompile limit of 8 was reached.", gb_id="GB0039"),
    ),
    crashes=(
        Crash(
            stage="inductor",
            error="CppCompileError",
            message="C++ compile error\nerror: no match for 'operator*'",
            position=position(31, "        y = y * mask", "y * mask"),
            traceback='Traceback (most recent call last):\n  File "a.py", line 1\nboom',
        ),
    ),
    notes=(
        Note("sync", "The device is synchronised here in every call.", ITEM.position),
        Note("unknown", "This version of torch does not tell end columns."),
    ),
    measurement=Measurement(
        eager=0.0123,
        compiled=0.0041,
        compile=8.25,
        repeats=20,
        peak_eager=3 << 20,
        peak_compiled=None,
        pays_after=1006,
    ),
    compile_seconds=(("dynamo", 1.5), ("inductor", 6.75)),
    error="Ctrl-C stopped the search for hidden causes.",
    complete=False,
)

TRICKY = replace(
    ITEM,
    category="[red]markup[/red] <b>category</b>",
    message="A message with [bold]markup[/bold], <script>alert(1)</script> and \x1b[31mescapes.",
    position=Position("<script>.py", 2, 9, 3, 15, "f[/]"),
    expression='naïve(\n\t\t"</pre><script>x</script>")',
    source=(
        (1, "def f(x):  # [red]красный[/red] \u202eevil"),
        (2, '\té = "日本語" + naïve('),
        (3, '\t\t"</pre><script>x</script>")'),
    ),
)

UNKNOWN = replace(
    BRANCH,
    position=Position("net.py", 22),
    stack=(),
    ops_before=None,
    graphs=(),
    expression="",
    source=(),
)


def many(number: int) -> Explanation:
    """An explanation of `number` causes, each between two graphs."""
    causes = tuple(
        replace(
            (ITEM, BRANCH)[i % 2],
            id=f"C{i + 1}",
            position=Position(FILE, 14 + 40 * i, 16, 14 + 40 * i, 33, f"Block{i}.forward"),
        )
        for i in range(number)
    )
    graphs = tuple(graph(i + 1, (i * 37) % 211 + 1, f"C{i + 1}") for i in range(number))
    return replace(
        TWO,
        verdict=f"Net runs as {number + 1} graphs: {number} breaks from {number} causes.",
        causes=causes,
        graphs=(*graphs, graph(number + 1, 9)),
    )
