"""What all results show in a notebook: HTML views and one progress line."""

from fullgraph.compiler.display.html import jinja_environment, style
from fullgraph.compiler.display.notebook import progress_line
from fullgraph.compiler.display.text import printable
from fullgraph.compiler.display.view import Section, Table, View, mimebundle

__all__ = [
    "Section",
    "Table",
    "View",
    "jinja_environment",
    "mimebundle",
    "printable",
    "progress_line",
    "style",
]
