"""`make demo`: two small networks, what torch's own explain says of them, what we say, and fix."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from pathlib import Path

import torch
from rich.console import Console
from rich.rule import Rule
from torch import nn

from examples import four_suspects, suspects
from fullgraph import explain, fix
from fullgraph.diagnose.report import render
from fullgraph.rewrites.fix import render as render_fixes
from fullgraph.rewrites.fix import render_diff

PAGE = Path("report.html")


def torchs_own(model: nn.Module, x: torch.Tensor) -> str:
    """What `torch._dynamo.explain` says, in its own words."""
    torch._logging.set_logs(dynamo=logging.ERROR)  # else it warns before it answers
    with contextlib.redirect_stdout(io.StringIO()):
        said = torch._dynamo.explain(model)(x)
    torch._logging.set_logs()
    torch._dynamo.reset()
    reasons = [f"  reason: {r.reason.partition(chr(10))[0]}" for r in said.break_reasons]
    counts = f"graphs: {said.graph_count}, breaks: {said.graph_break_count}"
    return "\n".join([counts, *(reasons or ["  no reason given"])])


def main() -> int:
    """Explain both networks in colour, write the second one's page, and fix the first."""
    console = Console(force_terminal=True if sys.stdout.isatty() else None, highlight=False)
    for title, build in (
        ("a network with four suspects", four_suspects.build),
        ("the same lines in a loop", suspects.build_loop),
    ):
        model, x = build()
        console.print(Rule(f"torch._dynamo.explain: {title}", align="left"))
        console.print(torchs_own(model, x), markup=False)
        console.print(Rule(f"fullgraph.explain: {title}", align="left"))
        explanation = explain(model, x)
        render(explanation, console)
        console.print()
    explanation.to_html(PAGE)
    console.print(f"The last report as a page: {PAGE.resolve()}", markup=False)
    console.print()
    console.print(Rule("fullgraph.fix: a network with four suspects", align="left"))
    fixes = fix(*four_suspects.build(), inductor=False)
    render_fixes(fixes, console)
    console.print(Rule("the whole diff, the unsafe edit included", align="left"))
    render_diff(fixes.diff(unsafe=True), console)
    graphs = fixes.before.default.graphs, fixes.after_unsafe.default.graphs
    console.print(f"\ngraphs {graphs[0]} → {graphs[1]}; nothing was written.", style="bold")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
