"""Renderers of an explanation: terminal, HTML, notebook, JSON, and differences."""

from fullgraph.diagnose.report.data import from_dict, to_dict
from fullgraph.diagnose.report.diff import Difference, diff, render_difference
from fullgraph.diagnose.report.html import page
from fullgraph.diagnose.report.notebook import mimebundle, next_step
from fullgraph.diagnose.report.schema import EXPLAIN
from fullgraph.diagnose.report.terminal import plain, render
from fullgraph.diagnose.report.wording import count

__all__ = [
    "EXPLAIN",
    "Difference",
    "count",
    "diff",
    "from_dict",
    "mimebundle",
    "next_step",
    "page",
    "plain",
    "render",
    "render_difference",
    "to_dict",
]
